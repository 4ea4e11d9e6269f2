"""General English of texts that put data into words: what carries no fact of its own, and what judges, not tells."""

_FUNCTION = """
    a an the and or but nor so of in on at to from by for with without as is are was were be been being am do does
    did has have had having it its this that these those they them their there here he she his her him we our us you
    your i my me who whom whose which what when where while whereas than then also both each all any some no not
    only just such over under between into onto within during after before until since up down out off through
    across about around against more most less least very much many few other another same own if because although
    though however per via can could will would may might shall should must one two three four five six seven eight
    nine ten first second third
"""
_TELLING = """
    data chart graph line shows show showing shown displays display illustrates illustrate depicts represents
    presented number value values total level rate range ranging ranges reached reaching reaches highest lowest
    maximum minimum average mean overall approximately nearly roughly features feature featuring offers offer comes
    includes include including included equipped available known located based expected experience following
    respectively final day days week weeks month months year years time period hour hours date today tomorrow next
    last morning afternoon evening night country city region people person named called born member part type kind
    model device product company film movie game match team teams home away score scored scoring goal goals won win
    winning victory lost season took place played between
"""
_JUDGING = """
    good great excellent impressive outstanding exceptional remarkable notable notably significant significantly
    popular famous renowned acclaimed prominent well-known talented skilled beautiful stunning sleek stylish elegant
    modern compact lightweight slim large small big huge powerful fast smooth seamless efficient reliable durable
    versatile ideal perfect suitable pleasant comfortable enjoyable exciting thrilling dominant dominating decisive
    intense close closely hard-fought strong strongly weak solid steady steadily gradual gradually sharp sharply
    dramatic rapid rapidly slight slightly stable consistent consistently relatively generally mostly mainly
    high-quality premium top-notch advanced convenient convenience essential important importance rich diverse
    unique various wide extensive successful success crucial vital ensure ensures ensuring provides providing
    enhance enhanced making reflecting indicating suggesting demonstrating highlighting contributing likely possibly
    potentially
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
TELLING_WORDS = frozenset(_TELLING.split())
JUDGING_WORDS = frozenset(_JUDGING.split())
