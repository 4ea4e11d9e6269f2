"""General English words that carry no fact of their own: months, number words, capitalized words that are not names."""

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sept", "sep"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}
NUMBER_WORDS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
}
WORDS_OF_NUMBERS = {number: word for word, number in NUMBER_WORDS.items()}
MULTIPLIERS = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "million": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "trillion": 1e12,
}
# Words that English capitalizes although they name nothing that a source would have to hold.
_NOT_NAMES = """
    a about above according accordingly additionally after afterwards again all also although always am an and
    another any anyone anything are as at based be because been before being below best besides between both but by
    can cannot certainly could currently dear despite did do does done during each either else every everyone
    everything finally first firstly following for former from further furthermore generally given good got great
    had has have having he hello hence her here hers hi him his how however i if in indeed initially inside instead
    into is it its itself just last lastly later latest least let like likewise many may maybe me meanwhile more
    moreover most mr mrs ms much must my namely near nearly neither never nevertheless next no nobody none
    nonetheless nor not nothing now of off ok okay on once one only or other others otherwise our ours out outside
    over overall own per perhaps please previously rather second secondly see several shall she should similarly
    since so some someone something sorry soon still such sure than thank thanks that the their theirs them then
    there therefore these they third this those though through throughout thus to today together tomorrow too toward
    towards under unfortunately until unless up upon us usually very was we well were what whatever when whenever
    where whereas wherever whether which while who whoever whom whose why will with within without would yes
    yesterday yet you your yours monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur
    thurs fri sat sun january february march april june july august september october november december jan feb mar
    apr jun jul aug sep sept oct nov dec spring summer autumn winter am pm utc gmt est edt pst pdt cst mst cet
    celsius fahrenheit kelvin id ids url urls api json html http https pdf csv faq ai etc eg ie vs no nos ok usa us
    uk eu un
    """
NOT_NAMES = frozenset(_NOT_NAMES.split())
