"""General English words (months, numbers, countries, words that are not names), and the meaning of dates and times."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product
from operator import itemgetter
from typing import TypeAlias

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

# The months of other languages, as their dates name them: `17. Februar 2026`, `3 de mayo`, `9 marca`.
_ABROAD = (
    "januar jänner janvier enero gennaio janeiro januari stycznia ocak",
    "februar février febrero febbraio fevereiro februari lutego şubat",
    "märz mars marzo março maart marca mart",
    "april avril abril aprile kwietnia nisan",
    "mai mayo maggio maio mei maja may\u0131s",
    "juni juin junio giugno junho czerwca haziran",
    "juli juillet julio luglio julho lipca temmuz",
    "august août agosto augustus sierpnia ağustos",
    "september septembre septiembre settembre setembro września eylül",
    "oktober octobre octubre ottobre outubro października ekim",
    "november novembre noviembre novembro listopada kas\u0131m",
    "dezember décembre diciembre dicembre dezembro december grudnia aral\u0131k",
)

_MONTHS_ABROAD = {name: number for number, names in enumerate(_ABROAD, start=1) for name in names.split()}

_ALL_MONTHS = MONTHS | _MONTHS_ABROAD


def _pattern_of(names: Iterable[str]) -> str:
    """Return a pattern for any of the names. Grouped by initials, most words fail after few comparisons."""
    by_initial = groupby(sorted(names, reverse=True), itemgetter(0))
    groups = (f"{initial}(?:{'|'.join(name[1:] for name in group)})" for initial, group in by_initial)
    return f"(?:{'|'.join(groups)})\\b"


MONTH = _pattern_of(map(str.capitalize, MONTHS)) + r"\.?"

# With a capital letter, `Mars` is a planet.
LOCAL_MONTH = _pattern_of({*_MONTHS_ABROAD, *map(str.capitalize, _MONTHS_ABROAD)} - {"Mars"})

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

_COUNTRIES = """
AD Andorra|AE United Arab Emirates|AF Afghanistan|AG Antigua and Barbuda|AL Albania|AM Armenia|AO Angola|AR Argentina
|AT Austria|AU Australia|AZ Azerbaijan|BA Bosnia and Herzegovina|BB Barbados|BD Bangladesh|BE Belgium|BF Burkina Faso
|BG Bulgaria|BH Bahrain|BI Burundi|BJ Benin|BN Brunei|BO Bolivia|BR Brazil|BS Bahamas|BT Bhutan|BW Botswana|BY Belarus
|BZ Belize|CA Canada|CD Democratic Republic of the Congo|CF Central African Republic|CG Congo|CH Switzerland
|CI Ivory Coast|CL Chile|CM Cameroon|CN China|CO Colombia|CR Costa Rica|CU Cuba|CV Cape Verde|CY Cyprus
|CZ Czech Republic Czechia|DE Germany|DJ Djibouti|DK Denmark|DM Dominica|DO Dominican Republic|DZ Algeria|EC Ecuador
|EE Estonia|EG Egypt|ER Eritrea|ES Spain|ET Ethiopia|FI Finland|FJ Fiji|FM Micronesia|FR France|GA Gabon
|GB United Kingdom Great Britain England Scotland Wales|GD Grenada|GE Georgia|GH Ghana|GL Greenland|GM Gambia|GN Guinea
|GQ Equatorial Guinea|GR Greece|GT Guatemala|GW Guinea-Bissau|GY Guyana|HK Hong Kong|HN Honduras|HR Croatia|HT Haiti
|HU Hungary
|ID Indonesia|IE Ireland|IL Israel|IN India|IQ Iraq|IR Iran|IS Iceland|IT Italy|JM Jamaica|JO Jordan|JP Japan
|KE Kenya
|KG Kyrgyzstan|KH Cambodia|KI Kiribati|KM Comoros|KN Saint Kitts and Nevis|KP North Korea|KR South Korea
|KW Kuwait|KZ Kazakhstan|LA Laos|LB Lebanon|LC Saint Lucia|LI Liechtenstein|LK Sri Lanka|LR Liberia|LS Lesotho
|LT Lithuania|LU Luxembourg|LV Latvia|LY Libya|MA Morocco|MC Monaco|MD Moldova|ME Montenegro|MG Madagascar
|MH Marshall Islands|MK North Macedonia|ML Mali|MM Myanmar Burma|MN Mongolia|MO Macao|MR Mauritania|MT Malta
|MU Mauritius
|MV Maldives|MW Malawi|MX Mexico|MY Malaysia|MZ Mozambique|NA Namibia|NE Niger|NG Nigeria|NI Nicaragua
|NL Netherlands Holland|NO Norway|NP Nepal|NR Nauru|NZ New Zealand|OM Oman|PA Panama|PE Peru|PG Papua New Guinea
|PH Philippines|PK Pakistan|PL Poland|PR Puerto Rico|PT Portugal|PW Palau|PY Paraguay|QA Qatar|RO Romania|RS Serbia
|RU Russia|RW Rwanda|SA Saudi Arabia|SB Solomon Islands|SC Seychelles|SD Sudan|SE Sweden|SG Singapore|SI Slovenia
|SK Slovakia|SL Sierra Leone|SM San Marino|SN Senegal|SO Somalia|SR Suriname|SS South Sudan|ST Sao Tome and Principe
|SV El Salvador|SY Syria|SZ Eswatini|TD Chad|TG Togo|TH Thailand|TJ Tajikistan|TL East Timor|TM Turkmenistan|TN Tunisia
|TO Tonga|TR Turkey|TT Trinidad and Tobago|TV Tuvalu|TW Taiwan|TZ Tanzania|UA Ukraine|UG Uganda
|US United States of America|UY Uruguay|UZ Uzbekistan|VA Vatican|VC Saint Vincent and the Grenadines|VE Venezuela
|VN Vietnam|VU Vanuatu|WS Samoa|XK Kosovo|YE Yemen|ZA South Africa|ZM Zambia|ZW Zimbabwe
"""

_CODES_AND_NAMES = [entry.strip().split(" ", 1) for entry in _COUNTRIES.replace("\n", "").split("|")]

# Maps each word of a country name to the country codes that the word may stand for.
COUNTRY_CODES: dict[str, frozenset[str]] = {}

for _code, _name in _CODES_AND_NAMES:
    for _word in _name.lower().replace("-", " ").split():
        COUNTRY_CODES[_word] = COUNTRY_CODES.get(_word, frozenset()) | {_code}

# Words that English capitalizes although they are not names that a source must contain.
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

# Frequent words of English, and of German, French, Spanish, Italian, Portuguese, Dutch, Polish and Turkish.
_ENGLISH = frozenset(["and", "are", "at", "by", "for", "from", "has", "of", "that", "the", "this", "to", "was", "with"])

_OTHER_LANGUAGES = """
    auf das dem den der die ein eine für ihr ihre ist mit nicht sie und von zum zur
    au aux avec dans des du est et la le les nous pour que sur une votre vous
    con del el en es está ha las los para por se su una
    che di gli il nel per sono suo com em foi não o os seu
    een en het naar niet op te u uw van voor jest na nie od się w z za ve bir bu için
    """

_NOT_ENGLISH = frozenset(_OTHER_LANGUAGES.split())

_DIGIT_RUN = re.compile(r"\d+")

_LETTERS = re.compile(r"[^\W\d_]+")

_MIDDAY = 12 * 60

_LAST_DAY = 31

Day: TypeAlias = tuple[int | None, int | None, int | None]


def days_of(text: str) -> list[Day]:
    """Return the days that a date may mean, as (year, month, day) with None for each part not stated.

    3/4/2024 may mean two days.
    """
    figures = [int(figure) for figure in _DIGIT_RUN.findall(text[:40])]
    month = next((_ALL_MONTHS[word] for word in _LETTERS.findall(text[:40].lower()) if word in _ALL_MONTHS), None)
    if month is not None:
        year = next((figure for figure in figures if figure > _LAST_DAY), None)
        day = next((figure for figure in figures if figure <= _LAST_DAY), None)
        return [(year, month, day)]
    if len(figures) < 3:
        return []
    first, second, third = figures[:3]
    if first > _LAST_DAY:
        return [(first, second, third)]
    year = third if third > 99 else 2000 + third
    both = [(year, first, second), (year, second, first)]
    return [day for day in both if 1 <= day[1] <= 12 and 1 <= day[2] <= _LAST_DAY]


def same_day(claimed: Day, given: Day) -> bool:
    """Return whether two days agree in every part that both state."""
    return all(one is None or other is None or one == other for one, other in zip(claimed, given, strict=True))


def minutes_of(text: str) -> int | None:
    """Return a time of day in minutes since midnight (`2 PM` is 840), or None if the text has no valid hour."""
    figures = [int(figure) for figure in _DIGIT_RUN.findall(text[:12])]
    if not figures or figures[0] > 24:
        return None
    minutes = figures[0] % 24 * 60 + (figures[1] if len(figures) > 1 else 0)
    half = text.lower().rstrip(". ")[-3:].replace(".", "")
    if half.endswith("pm") and minutes < _MIDDAY:
        return minutes + _MIDDAY
    return minutes - _MIDDAY if half.endswith("am") and minutes >= _MIDDAY else minutes


# Maps a time zone to its distance from UTC in minutes.
ZONES = {
    **dict.fromkeys(("Z", "UTC", "GMT", "WET"), 0), **dict.fromkeys(("CET", "BST", "WEST", "MEZ"), 60),
    **dict.fromkeys(("CEST", "EET", "SAST", "MESZ"), 120), **dict.fromkeys(("EEST", "MSK", "TRT"), 180), "IST": 330,
    **dict.fromkeys(("SGT", "HKT", "AWST"), 480), "JST": 540, "KST": 540, "AEST": 600, "AEDT": 660, "BRT": -180,
    "EDT": -240, "EST": -300, "CDT": -300, "CST": -360, "MDT": -360, "MST": -420, "PDT": -420, "PST": -480,
}  # fmt: skip


def offset_of(zone: str) -> int:
    """Return the minutes that a zone such as `CET` or an offset such as `+01:00` is ahead of UTC."""
    if zone in ZONES:
        return ZONES[zone]
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return -minutes if zone[0] == "-" else minutes


_Said: TypeAlias = tuple[bool, bool, bool]


class KnownDays:
    """An ordered list of days that returns the first day compatible with a claimed day."""

    def __init__(self, days: Iterable[Day]) -> None:
        self._days = list(days)
        # One table for each combination of parts that a claim may state. The table maps each known day, reduced to
        # these parts, to its first position.
        self._tables: dict[_Said, dict[Day, int]] = {}

    def first(self, claimed: Day) -> int | None:
        """Return the position of the first day that agrees with `claimed` in every part that both state, or None."""
        given_parts = (claimed[0] is not None, claimed[1] is not None, claimed[2] is not None)
        table = self._tables.get(given_parts)
        if table is None:
            table = self._tables[given_parts] = {}
            for place, day in enumerate(self._days):
                table.setdefault(_keep_parts(day, given_parts), place)
        places = (table.get(_keep_parts(claimed, parts)) for parts in product((True, False), repeat=3))
        return min((place for place in places if place is not None), default=None)


def _keep_parts(day: Day, kept_parts: tuple[bool, ...]) -> Day:
    year, month, date = day
    return (year if kept_parts[0] else None, month if kept_parts[1] else None, date if kept_parts[2] else None)


def is_foreign(text: str) -> bool:
    """Return whether a text has more of the frequent words of other languages than of English, and at least two."""
    words = frozenset(text[:2_000].lower().split())
    return len(words & _NOT_ENGLISH) > max(1, len(words & _ENGLISH))


# Each row holds the units of one measure, in lower case. A number of the sources before one of the words `cents` or
# `minor` is an amount in the smallest unit of a currency; so is one under the key `amount`.
_MEASURES: tuple[dict[str, float], ...] = (
    {"mg": 1e-3, "g": 1, "gram": 1, "grams": 1, "kg": 1e3, "kilograms": 1e3, "t": 1e6, "tonnes": 1e6, "lb": 453.59237}
    | {"lbs": 453.59237, "oz": 28.349523},
    {"mm": 1e-3, "cm": 1e-2, "m": 1, "meters": 1, "metres": 1, "km": 1e3, "mi": 1609.344, "miles": 1609.344}
    | {"ft": 0.3048, "feet": 0.3048, "kilometers": 1e3, "kilometres": 1e3},
    {"ms": 1e-3, "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "min": 60, "mins": 60, "minute": 60}
    | {"minutes": 60, "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "day": 86_400, "days": 86_400},
    {"day": 1, "days": 1, "week": 7, "weeks": 7},
    {"month": 1, "months": 1, "year": 12, "years": 12},
    {"w": 1, "kw": 1e3, "mw": 1e6, "gw": 1e9},
    {"wh": 1, "kwh": 1e3, "mwh": 1e6, "gwh": 1e9},
    {"mv": 1e-3, "v": 1, "kv": 1e3},
    {"ma": 1e-3, "a": 1},
    {"ml": 1e-3, "l": 1, "liters": 1, "litres": 1},
    {"b": 1, "byte": 1, "bytes": 1, "size": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2.0**10}
    | {"mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40},
    {"millicores": 1e-3, "core": 1, "cores": 1},
    {"cents": 1e-2, "cent": 1e-2, "ct": 1e-2, "minor": 1e-2, "amount": 1e-2, "money": 1},
)

_OF_MONEY = frozenset("$\u20ac\u00a3") | {"eur", "euro", "euros", "usd", "gbp", "pln", "chf", "cad", "aud", "dollars"}

_TEMPERATURES = {"c": ("f", 1.8, 32.0), "f": ("c", 1 / 1.8, -32 / 1.8)}


# The unit of `30000 ms` and 68 °F, or the end of a key such as `weight_g`, or a whole key in JSON.
UNIT = re.compile(r"(?:\d[ -]?\u00b0? ?|[_\"])([a-z]{1,12})(?![^\W_])")


def conversions_of(unit: str) -> Iterator[tuple[str, float, float]]:
    """Yield other units of the measure of a unit, with the factor and the summand that convert a number to them."""
    unit = unit.lower()
    if unit.startswith("\u00b0"):
        if temperature := _TEMPERATURES.get(unit[1:].strip()):
            yield temperature
        return
    unit = "money" if unit in _OF_MONEY else unit
    for measure in _MEASURES:
        if size := measure.get(unit):
            yield from ((other, size / one, 0.0) for other, one in measure.items() if one != size)


_ORDINALS = ("first", "second", "third", "fourth")

# Maps the number of a quarter to its spellings in lower case.
QUARTERS = {
    number: (f"{ordinal} quarter", f"{ordinal}-quarter", f"q{number}", f"{number}q", f"{number}{ending} quarter")
    for number, (ordinal, ending) in enumerate(zip(_ORDINALS, ("st", "nd", "rd", "th"), strict=True), start=1)
}

_CONTRACTIONS = (
    ("cannot", "can not"), ("can't", "can not"), ("won't", "will not"), ("n't", " not"), ("'re ", " are "),
    ("'ve ", " have "), ("'ll ", " will "), ("'m ", " am "),
)  # fmt: skip


def flat_text(lowered: str) -> str:
    """Return a lower-case text for looking up quotes: single spaces, plain apostrophes, contractions written out."""
    flat = " ".join(lowered.replace("\u2019", "'").split())
    for short, full in _CONTRACTIONS if "'" in flat or "cannot" in flat else ():
        flat = flat.replace(short, full)
    return flat
