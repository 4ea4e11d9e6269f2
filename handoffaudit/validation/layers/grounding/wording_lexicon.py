"""The English lexicon of the wording detector: opposites, exclusive families, synonyms and word lists.

The lexicon is written by hand from general English, not taken from labelled data. The modules that use the lexicon stem
its words, so one regular form is enough; irregular forms such as `rose` and `shrank` are words of their own. Entries
end with a semicolon, and a word may occur in several entries.
"""


def _entries(text: str) -> tuple[str, ...]:
    return tuple(" ".join(entry.split()) for entry in text.split(";") if entry.strip())


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each entry has two poles, with `|` between them. A word of one pole reverses the claim if the source has only words of
# the other pole. Words of one pole are synonyms.
OPPOSITES = _entries(
    """
    increase rise rose grow grew growth gain surge climb soar jump expand expansion escalate up upward upturn boost
    raise hike | decrease decline fall fell drop reduce reduction shrink shrank plunge plummet tumble slump sink
    sank dip down downward downturn lower diminish dwindle contract contraction cut lessen; high higher highest peak
    top maximum maximize maximise maximal | low lower lowest bottom minimum minimize minimise minimal; large larger
    largest big bigger biggest huge enormous massive vast giant great immense considerable substantial | small
    smaller smallest little tiny minor slight minimal negligible modest miniature; more additional extra further
    greater most majority many numerous several multiple various wide extensive plenty | less fewer least few
    minority limited restricted narrow scarce sparse lone sole single; good better best great excellent positive
    favorable favourable optimal superior strong outstanding impressive | bad worse worst poor terrible negative
    unfavorable unfavourable inferior weak awful disappointing; improve improvement enhance strengthen upgrade
    optimize ameliorate advance progress recover recovery benefit | worsen deteriorate degrade weaken downgrade
    undermine hinder hamper impair regress harm hurt struggle damage; succeed success successful win won winner
    victory achieve accomplish triumph | fail failure unsuccessful lose lost loser loss defeat miss; start begin
    began begun commence initiate launch open opening introduce onset initial inaugurate | end finish stop cease
    terminate conclude close closing closure halt discontinue quit final; continue resume proceed maintain keep
    retain remain persist sustain preserve | stop halt discontinue cease abandon suspend drop quit cancel scrap
    interrupt; accept approve agree agreement consent embrace welcome endorse confirm grant | reject refuse decline
    disapprove disagree disagreement deny dismiss oppose rebuff veto withhold; allow permit enable let authorize
    authorise legalize legal lawful entitle | forbid prohibit ban prevent block disallow bar illegal unlawful outlaw
    restrict preclude; support back favor favour endorse advocate promote encourage approve defend praise applaud
    commend | oppose against criticize criticise condemn discourage denounce attack undermine blame object; before
    prior previous previously earlier precede former early ago beforehand preceding | after later subsequent
    subsequently following afterwards future upcoming next late; first initial primary original earliest begin |
    last final latest second third secondary ultimate subsequent; always constantly consistently frequently often
    regularly usually commonly every typically | never rarely seldom occasionally sometimes infrequently hardly
    irregularly inconsistently scarcely; all every each both everyone everybody everything entire whole full
    complete completely fully entirely always any | none no neither nobody nothing some partial partially partly
    half few incomplete; above over exceed exceeding beyond surpass outperform more | below under beneath
    underperform within trail lag short; inside within internal interior indoor inner inward | outside external
    exterior outdoor outer outward outsourced; with include including included contain incorporate having feature |
    without exclude excluding lack lacking omit omitting except absent devoid missing; add attach insert append
    install join combine connect connected link | remove delete detach subtract uninstall separate disconnect
    disconnected eliminate withdraw divide split; fast faster quick quickly rapid rapidly swift swiftly speedy
    prompt accelerate hasten immediate immediately | slow slower slowly gradual gradually sluggish delay delayed
    decelerate postpone late; easy easier easily simple simpler simplify effortless straightforward basic | hard
    harder difficult complex complicate complicated challenging advanced sophisticated intricate tough; new newer
    newest modern recent recently latest novel innovative fresh current contemporary emerging | old older oldest
    outdated ancient obsolete traditional conventional former existing classic dated; strong stronger strength
    robust powerful solid firm tough resilient | weak weaker weakness fragile feeble frail vulnerable faint brittle;
    likely probable probably certain certainly sure definite definitely confident | unlikely improbable uncertain
    doubtful unsure hesitant dubious skeptical sceptical; possible able can capable feasible | impossible unable
    cannot incapable infeasible; true accurate correct right precise exact genuine real actual authentic valid |
    false inaccurate incorrect wrong imprecise fake fictional erroneous mistaken invalid bogus; public publicly open
    disclose reveal disclosed expose unveil transparent | private privately secret conceal hide hidden confidential
    withhold undisclosed cover; rich wealthy affluent expensive costly premium luxury pricey profitable | poor
    impoverished cheap inexpensive affordable economical budget free unprofitable; profit gain surplus income
    revenue earn earnings profitable | loss deficit debt expense unprofitable cost; buy bought purchase acquire
    acquisition obtain procure | sell sold sale divest divestiture dispose; borrow receive received take get import
    | lend lent give gave given send sent export deliver provide donate; hire employ recruit appoint promote retain
    | fire dismiss layoff sack demote resign; arrive enter entry come join return | leave left depart exit go
    withdraw departure; attack offensive aggressive assault invade | defend defensive defence defense protect
    passive retreat guard; war conflict fight hostile enemy rival opponent foe hostility | peace harmony friendly
    friend ally partner ceasefire truce alliance supporter; love like enjoy adore prefer admire fond appreciate |
    hate dislike detest despise loathe resent; happy glad pleased satisfied delighted content satisfaction joy
    cheerful optimistic hopeful enthusiastic excited | sad unhappy upset angry dissatisfied disappointed
    dissatisfaction discontent miserable pessimistic indifferent reluctant worried concerned; hope confidence trust
    believe faith optimism | despair doubt distrust disbelieve mistrust pessimism fear concern; safe safety secure
    security protected harmless | dangerous danger unsafe risky hazard hazardous insecure harmful threat risk;
    healthy well alive living live survive born birth recover | sick ill ailing dead death die died kill deceased
    perish unwell fatal; guilty convict convicted condemn culpable | innocent acquit acquitted exonerate absolve
    cleared; win beat defeat overcome victory lead ahead | lose lost surrender trail behind succumb draw; man men
    male boy he his husband father son brother gentleman king | woman women female girl she her wife mother daughter
    sister lady queen; young younger youth child children junior teenager kid | old older elderly adult senior aged;
    early premature advance | late overdue belated delayed; day daytime morning dawn | night nighttime evening dusk;
    hot hotter warm warmer heat | cold colder cool cooler chill freeze; wet rain rainy damp moist | dry drought
    arid; light bright white | dark dim black; heavy heavier | light lighter lightweight; long longer lengthy
    extended prolong | short shorter brief shorten; tall taller | short shorter; deep deeper profound | shallow
    superficial; wide wider broad broader | narrow narrower; thick thicker | thin thinner; near nearby close closer
    adjacent | far further distant remote; full filled crowded | empty vacant bare; hard solid rigid | soft liquid
    flexible; rough | smooth smoothly; loud noisy | quiet silent; clean clear pure | dirty polluted contaminated
    noisy; clear clearly obvious explicit evident unambiguous plain | unclear vague ambiguous implicit obscure
    confusing opaque; active actively busy dynamic | inactive passive passively idle dormant static; permanent
    permanently lasting indefinite | temporary temporarily interim provisional brief; same identical similar
    similarly equal alike unchanged constant stable steady consistent | different differently distinct dissimilar
    unequal various changed change variable unstable volatile fluctuate vary inconsistent; common widespread general
    generally popular usual ordinary normal typical regular | rare uncommon unusual unpopular exceptional abnormal
    specific special unique atypical irregular; global international worldwide foreign overseas abroad | local
    domestic national regional home; central centralized centralised unified | decentralized decentralised
    peripheral distributed fragmented; urban city | rural countryside; north northern | south southern; east eastern
    | west western; left | right; front forward | back rear backward; horizontal | vertical; parallel | sequential
    serial perpendicular; rise sunrise | sunset; upper top upstairs upload | lower bottom downstairs download;
    ascend | descend; input | output; question ask inquire enquire request | answer reply respond response; teach
    taught teacher | learn learned learner student pupil; employer | employee staff worker; buyer customer consumer
    client | seller vendor merchant supplier; landlord | tenant; host | guest; doctor physician | patient; parent |
    child children; lawyer | judge; major significant significantly important key crucial essential main critical
    vital considerable considerably substantially greatly dramatically sharply sharp steep | minor insignificant
    insignificantly unimportant trivial negligible optional irrelevant slightly slight marginally marginal moderate
    moderately gentle somewhat; necessary required mandatory compulsory essential obligatory must | unnecessary
    optional voluntary needless elective; voluntary voluntarily willing willingly | involuntary forced compulsory
    unwilling reluctant reluctantly; direct directly | indirect indirectly; online virtual digital remote electronic
    | offline physical paper onsite; automatic automatically automated automate | manual manually; natural organic |
    artificial synthetic; supervised guided | unsupervised unguided; theoretical theory abstract | practical
    practice empirical concrete experimental; quantitative | qualitative; continuous | discrete; linear | nonlinear;
    deterministic | stochastic random randomly; global | local; forward | backward; convex | concave; dense |
    sparse; labeled labelled annotated | unlabeled unlabelled; positive | negative; known familiar recognized famous
    | unknown unfamiliar unrecognized anonymous obscure; visible apparent seen | invisible hidden unseen; present
    presence attend attended | absent absence missing skip; together jointly joint collective collectively shared |
    separately separate alone individual individually independent independently apart; depend dependent reliant rely
    | independent independently autonomous; multi multiple plural | single individual uni sole; unite united unify
    merge | divide divided split separate; friendly polite kind generous warm | hostile rude unkind cruel mean cold;
    formal official professional | informal casual unofficial amateur; efficient effective efficiently productive |
    inefficient ineffective wasteful inefficiently; useful helpful beneficial valuable worthwhile | useless
    unhelpful harmful worthless detrimental; advantage benefit pro merit strength upside | disadvantage drawback con
    flaw weakness downside shortcoming; solution solve resolve fix repair | problem issue worsen break broken;
    create build built construct make develop establish found | destroy demolish dismantle ruin break abolish;
    remember recall | forget forgot; save | spend spent waste; show display reveal | hide conceal; lead leader |
    follow follower; pass passed | fail failed; push | pull; lock close shut | unlock open; import | export; credit
    | debit; asset | liability; bull bullish | bear bearish; inflation | deflation; supply | demand; wholesale |
    retail; gross | net; fixed fix constant | variable adjustable flexible; guarantee ensure assure secure | risk
    endanger jeopardize threaten; cause trigger lead result provoke | prevent avoid avert stop; because due |
    despite although though regardless; innocent | guilty; alone | together; democrat democratic liberal progressive
    | republican conservative authoritarian; civilian | military; commercial | military personal; armed | unarmed;
    manned crewed | unmanned uncrewed; married marry wed | divorced divorce single separate; vertebrate |
    invertebrate; majority | minority; victim | perpetrator suspect attacker; mild | severe serious acute;
    intentional intentionally deliberate deliberately purposely | accidental accidentally unintentional
    unintentionally inadvertently; exclusive exclusively only solely unique | inclusive shared common also; specific
    particular tailored custom customized personalized | general generic generalized standard broad; expect expected
    anticipated predictable | unexpected unexpectedly surprising surprise unforeseen; finish complete completed |
    incomplete unfinished pending ongoing; still yet | already; ready prepared | unready unprepared; legal |
    criminal; upstream | downstream; offline | online; day | night; heaven | hell; life | death; tight strict
    strictly | loose lenient lax relaxed; adopt implement enforce introduce impose | abandon repeal lift revoke
    scrap ease; hopeful | hopeless; interested interest keen eager | uninterested disinterest disinterested bored;
    invest invested | divest disinvest; comprehensive thorough detailed complete | limited partial superficial
    incomplete basic; overestimate | underestimate; upper | lower; centre center | edge periphery; experienced
    expert skilled veteran seasoned trained | inexperienced novice beginner amateur unskilled untrained rookie;
    detect find discover locate spot notice identify | overlook miss ignore neglect disregard; admit confess
    acknowledge concede | deny refute dispute reject; confirm verify corroborate prove | deny refute contradict
    disprove debunk; encourage motivate inspire persuade | discourage deter demotivate dissuade; attract appeal |
    repel deter; collect gather accumulate | distribute scatter disperse; load upload | unload download; activate
    enable | deactivate disable; release free liberate | detain imprison capture arrest hold jail; appear emerge |
    disappear vanish fade; reward bonus incentive | punish penalize penalise penalty fine; praise acclaim applause |
    criticism blame condemnation; abundant ample plentiful excess surplus | scarce insufficient inadequate lacking
    shortage deficit; diverse varied different mixed heterogeneous | uniform homogeneous identical alike monotonous;
    flexible adjustable adaptable customizable | rigid fixed inflexible strict; portable mobile movable | stationary
    fixed immobile; sustainable renewable green | unsustainable polluting nonrenewable; free complimentary waived |
    paid charged payable; discount rebate | surcharge markup penalty; peaceful nonviolent | violent aggressive;
    cautious careful prudent | reckless careless; brave courageous | cowardly timid afraid; generous | stingy
    greedy; calm relaxed composed | nervous anxious agitated tense; honest truthful sincere | dishonest lying
    deceptive deceitful; loyal faithful | disloyal treacherous; schoolgirl actress policewoman businesswoman heroine
    | schoolboy actor policeman businessman hero; senior | junior; facilitate aid ease | impede obstruct complicate;
    advanced | basic rudimentary outdated primitive; attend participate join | skip miss boycott avoid; agree concur
    | disagree differ dispute; majority bulk | minority handful; overestimate overstate exaggerate | underestimate
    understate downplay; optimal ideal perfect | suboptimal flawed imperfect; gain obtain earn | forfeit lose;
    expand broaden widen | narrow shrink restrict; inflate | deflate; permanent | temporary; upgrade | downgrade;
    repair mend restore | damage break ruin wreck; arrest charge prosecute | release acquit exonerate; resist refuse
    defy | obey comply surrender submit; borrower debtor | lender creditor; winner champion | loser; ally supporter
    proponent advocate | opponent critic adversary; hero | villain; predator | prey; cause | effect; offer give
    provide | request demand seek; wealth prosperity | poverty; freedom liberty | captivity slavery; knowledge
    awareness | ignorance unawareness; order | chaos disorder; unity | division; shallow | deep; outgoing |
    incoming; inbound | outbound; arrival | departure; entrance | exit; attack strike | retreat withdrawal; tighten
    | loosen ease; freeze | thaw melt; accelerate | brake; adult | child minor; domestic | wild; raw | cooked; sweet
    | bitter sour; sharp | blunt dull; alert awake | asleep; busy occupied | idle free available; cheaper |
    costlier; pre | post; pro | anti; inclusive | exclusive; interesting exciting engaging | boring dull tedious;
    beautiful attractive pretty | ugly unattractive; popular beloved | unpopular disliked; famous renowned
    celebrated | unknown obscure; comfortable cozy | uncomfortable; convenient | inconvenient; satisfied content |
    dissatisfied frustrated; confident assured | insecure doubtful; relevant | irrelevant; rational logical |
    irrational illogical; legitimate | illegitimate; mature | immature; perfect | imperfect; patient | impatient;
    competent capable | incompetent incapable; adequate sufficient enough | inadequate insufficient; consistent |
    inconsistent contradictory; secure | vulnerable insecure; frequent | infrequent rare; lenient | harsh severe;
    supportive | unsupportive critical;
    """
)

# Words of one entry exclude one another in the same place. A word that the source does not have is a swap if the source
# has another word of the entry.
FAMILIES = _entries(
    """
    second minute hour day week fortnight month quarter year decade century; daily weekly monthly quarterly yearly
    annual annually hourly biweekly; january february march april may june july august september october november
    december; monday tuesday wednesday thursday friday saturday sunday; spring summer autumn fall winter; morning
    noon afternoon evening night midnight; breakfast lunch dinner supper; past present future; yesterday today
    tomorrow; email phone telephone call letter fax text sms chat mail; meeting webinar conference interview
    workshop demo trial consultation seminar; revenue profit income cost expense loss debt tax wage salary price
    dividend margin sale investment earnings cash capital interest fee; dollar euro pound yen yuan rupee franc;
    million billion trillion thousand hundred; percent point; red orange yellow green blue purple pink brown black
    white grey gray; bronze silver gold platinum diamond; basic standard premium enterprise; small medium large;
    word phrase sentence paragraph document chapter page letter; visual auditory tactile olfactory; image video
    audio text speech picture; car truck bus train plane bike bicycle motorcycle boat ship van ferry helicopter; dog
    cat horse cow pig sheep bird fish rabbit lion tiger bear elephant wolf fox; mother father son daughter brother
    sister husband wife uncle aunt cousin nephew niece grandmother grandfather; doctor nurse teacher lawyer engineer
    driver farmer soldier pilot actor singer writer artist chef scientist; president minister senator governor mayor
    king queen prince chancellor ambassador; ceo cfo cto coo president director chairman manager founder owner
    executive accountant intern; police army navy military firefighters; football basketball baseball tennis golf
    cricket rugby hockey boxing swimming; hospital school university college church prison court library museum
    hotel restaurant airport station bank; city town village country state county region continent; head arm leg
    hand foot knee shoulder back neck eye ear nose chest finger ankle; heart lung liver kidney brain stomach; coffee
    tea milk water juice beer wine; pizza burger pasta sandwich salad soup steak rice bread; apple orange banana
    grape pear strawberry lemon; cotton wool silk leather plastic metal wood glass steel paper rubber stone; rock
    pop jazz rap country classical folk; novel poem song film movie play book album documentary; earthquake flood
    hurricane storm tornado fire drought tsunami; one two three four five six seven eight nine ten eleven twelve;
    first second third fourth fifth sixth seventh eighth ninth tenth; once twice; single double triple; half third
    quarter; north south east west northern southern eastern western; accuracy precision recall speed latency
    robustness efficiency cost; supervised unsupervised reinforcement; convolutional recurrent feedforward
    transformer; classification regression clustering segmentation detection generation translation; encoder decoder
    discriminator generator; syntactic semantic lexical phonetic morphological; mean median mode maximum minimum;
    training testing validation; mathematics physics chemistry biology history geography economics; solar wind
    nuclear coal gas oil hydro geothermal; auto home life health travel pet dental vehicle property; android ios
    windows linux; software hardware; theft burglary murder assault fraud robbery arson kidnapping; ban fine jail
    warning; must should may might can could will would shall; plan option; muslim christian jewish hindu buddhist;
    breast lung skin prostate; import export; battery screen camera keyboard button; marketing finance sales
    engineering design research legal accounting; weekday weekend; primary secondary tertiary; customer employee
    supplier investor shareholder competitor; local regional national international global; student teacher parent;
    warehouse office factory store shop home garage studio showroom clinic laboratory; mortgage loan lease credit
    grant; insurance banking retail healthcare manufacturing education hospitality construction agriculture tourism;
    pool garden kitchen bathroom bedroom roof garage basement; hair skin nail teeth; manslaughter murder assault
    robbery theft fraud rape; knife gun bomb sword rifle missile; beach cliff mountain river lake forest desert
    island valley; star galaxy planet moon asteroid comet sun; telescope microscope camera radar; cancer diabetes
    stroke asthma flu pneumonia; vaccine drug therapy surgery; wind rain snow hail fog thunder; kilometre kilometer
    mile metre meter foot inch yard; kilogram pound ounce gram ton tonne; physical mental emotional financial; boy
    girl woman man; sister brother; pilot passenger crew; plaintiff defendant judge juror prosecutor; goalkeeper
    defender midfielder striker; hat shirt shoe dress coat trousers; chair table sofa bed desk; piano guitar violin
    drum; spanish french german italian english chinese japanese russian; chest back stomach; dividend bonus salary;
    startup nonprofit charity corporation; treadmill bicycle dumbbell rower; apartment house condo villa; contract
    lease license; quarterly monthly yearly; gdp inflation unemployment; adversarial generative discriminative
    contrastive; lstm cnn rnn transformer gan autoencoder; tweet post article blog video; spreadsheet presentation
    database; laptop desktop tablet smartphone; highway street bridge tunnel; brother cousin uncle;
    """
)

# A word that the source does not have is harmless if the source has another word of its entry.
SYNONYMS = _entries(
    """
    say said state tell told announce declare claim report mention note affirm assert reveal disclose remark comment
    explain describe express communicate convey voice share indicate cite suggest admit acknowledge; show
    demonstrate display illustrate present exhibit prove indicate reveal suggest highlight signify; use utilize
    utilise employ apply leverage adopt; make create produce generate build develop construct form; help assist aid
    support facilitate; get obtain receive acquire gain secure; give provide offer supply deliver grant present
    propose extend; need require must necessitate demand; want wish desire seek hope; try attempt endeavor endeavour
    effort seek strive initiative; ask request inquire enquire seek; plan intend aim intention goal objective target
    purpose scheme; begin start commence launch initiate; company firm organization organisation business enterprise
    corporation agency group; client customer buyer consumer shopper patron user; worker employee staff personnel
    team; manager leader boss head chief director executive ceo chairman; agent representative rep salesperson
    salesman seller consultant; doctor physician; kid child children; car auto automobile vehicle automotive; house
    home residence household; job work task position role employment; money fund cash finance funding; price cost
    fee charge rate; sale revenue turnover proceeds; profit earnings income gain; growth increase rise expansion
    gain uptick; decline decrease drop fall reduction dip slump downturn; discount deduction rebate reduction;
    problem issue difficulty challenge trouble concern; idea concept notion thought; method approach technique way
    procedure strategy; model framework system architecture; result outcome finding conclusion consequence; test
    trial experiment examination evaluate evaluation; study research investigation analysis survey; data information
    detail details; important significant crucial key essential vital critical major; various different diverse
    several multiple numerous many range; comprehensive complete full thorough extensive; good great excellent fine
    positive; fast quick rapid swift; new novel innovative fresh; current present existing ongoing; previous prior
    former past last earlier; expect anticipate project forecast predict estimate foresee; estimate evaluation
    projection forecast prediction; unchanged unaltered constant steady same stable consistent; total overall
    combined aggregate; extra additional further more supplementary added; personalized customized tailored custom
    bespoke individualized; special exclusive unique particular; improve enhance better boost upgrade strengthen;
    ensure guarantee assure secure; reach achieve attain accomplish; keep maintain retain preserve hold; change
    modify alter adjust transform shift adapt; choose select pick opt; choice option selection alternative; decide
    determine resolve conclude settle; discuss talk debate deliberate converse address; discussion conversation talk
    debate dialogue; think believe consider feel view regard; like enjoy appreciate; buy purchase; sell market; end
    finish conclude complete terminate; join enroll enrol register sign subscribe; arrange schedule organize
    organise set plan book; meeting session appointment conference gathering; include contain comprise encompass
    incorporate consist involve cover; contact reach call communicate; email mail message; phone telephone call
    mobile; about regarding concerning around approximately roughly nearly almost circa; over above exceed more
    beyond; under below beneath; among amongst between; during throughout amid; because since due owing as; however
    but although though yet nevertheless still; also too additionally moreover furthermore; therefore thus hence
    consequently; allow enable permit let; stop halt cease; prevent avoid avert; big large huge giant massive
    enormous sizeable; small little tiny compact; begin onset; area region zone district territory; country nation
    state; city town; people individuals persons folks; man guy gentleman; woman lady; kill slay murder die; die
    death dead pass perish; attack assault strike; fight battle combat war conflict; police officer cop; arrest
    detain capture; jail prison imprison; law legislation rule regulation act bill; government administration
    authority authorities; official authority; vote ballot election poll; win victory triumph; beat defeat overcome;
    game match; player athlete footballer; tournament competition contest championship; film movie picture; book
    novel; song track; author writer; show program programme series; picture photo photograph image; buildings
    building structure; street road avenue; sea ocean; illness disease sickness ailment; hurt injure injury wound
    harm; hospital clinic; medicine drug medication; food meal; verify verification validate validation confirm
    confirmation proof prove attestation substantiation evidence demonstrate; correct accurate right proper precise
    exact valid; specify specified define defined designated particular; learn discover find know; perform execute
    conduct carry do; performance result; reduce decrease lower cut lessen minimize; increase raise boost grow rise
    climb surge expand enlarge soar jump; fall drop decline decrease plunge tumble slump sink dip plummet; deploy
    implement introduce roll launch install; stage phase step; move shift transition progress advance; authority
    body agency organization regulator department; aircraft airplane plane; connect link join; join unite; separate
    split divide; strong robust solid powerful; sharp steep dramatic drastic significant substantial considerable
    remarkable notable; simple easy straightforward; hard difficult tough challenging; clear evident obvious; whole
    entire all full; start beginning outset; near close nearby; suitable appropriate fit proper; reasonable fair
    sensible affordable; cheap inexpensive affordable; expensive costly pricey; benefit advantage profit gain;
    feature function functionality capability; tool instrument device solution platform app application software;
    platform system; service assistance support; quality standard; safe secure; worry concern; happy glad pleased
    satisfied; angry furious upset; risk danger threat hazard; chance opportunity possibility; perhaps maybe
    possibly; often frequently regularly; now currently presently; soon shortly; quickly rapidly swiftly fast;
    mainly mostly primarily largely chiefly; only just solely merely; very extremely highly; train educate teach
    instruct; outperform surpass exceed beat; advanced modern; propose present introduce suggest describe; neural
    network; dataset data corpus; word term; part component element piece portion; kind type sort form; amount
    quantity number volume; level degree extent; limit restrict constrain; limited restricted; fix repair solve
    resolve; check inspect examine review assess verify; look see watch view observe; search seek hunt look; appear
    seem look; become turn; remain stay continue; return back; leave depart exit; arrive come; send transmit
    dispatch; respond reply answer; reject refuse decline deny; accept agree approve; prefer favor favour; recommend
    suggest advise propose; warn caution alert; accuse blame charge; ban prohibit forbid outlaw; demand call urge;
    hire employ recruit; found establish set; invest investment spend; own possess have; lead head guide; follow
    pursue; represent depict portray; occur happen take; damage harm destroy; protect defend guard safeguard; remove
    eliminate delete; add include; simulate emulate; interest enthusiasm keen curiosity; consolidated combined
    total; share stock; range span spectrum; guidance forecast outlook; pandemic covid coronavirus; year annual;
    location place site spot; goods product item merchandise; product item goods; design plan layout; remote
    control; user customer; colour color; policy plan coverage insurance package; premium fee price payment;
    deductible excess; quote quotation estimate; coverage protection cover; resident citizen inhabitant; attorney
    lawyer counsel; lawmaker legislator politician representative senator congressman; oversight supervision
    monitoring; trip visit journey tour travel; death killing fatality; sick ill unwell; suspect believe think;
    launch start initiate undertake open; probe investigation inquiry examination; proof evidence; poison toxin;
    carrier airline; aerial air airborne; unmanned uncrewed drone; array range variety assortment selection; impact
    effect influence affect; talk speech lecture; aid assist help; handle manage deal; operate work run function;
    operation activity; concept idea notion; parse parsing analysis; image picture photo; quick prompt speedy;
    automate automatic; smart intelligent clever; premium excellent; seller vendor provider supplier retailer
    distributor; equipment gear apparatus; purchase buy order acquisition; remark comment statement; trouble problem
    difficulty; demonstrate show prove; thought idea view opinion belief; member participant; team group crew staff;
    rate speed pace; revenue sales turnover; stake share holding; merge combine unite; acquire buy purchase; loss
    deficit; debt liability; boss ceo chief; farmer grower; crop harvest; soil earth ground; modernize update
    upgrade; elevate raise lift improve; streamline simplify; organized arranged; aim seek try; enable let allow
    help; motivate encourage inspire; assign allocate give; train teach; weaken undermine; enrich enhance improve;
    preserve protect conserve; collide crash; facing confront; lengthy long extended; shorten abbreviate; refund
    reimbursement repayment; reimburse refund repay; complaint grievance; request ask appeal; reply respond answer;
    notify inform tell alert; cancel revoke; postpone delay defer; advertise promote market; recommend advise
    suggest propose; worried concerned anxious; glad happy pleased; elderly old aged senior; youth teenager
    adolescent young; remote controller; screen display monitor; button key; battery cell; hike raise increase;
    slump plunge drop fall; jump surge soar rise; reveal disclose unveil show; hide conceal; mistake error fault;
    correct fix repair; correct right proper; staff employee worker; layoff redundancy; forecast projection outlook
    guidance; estimate expect project; roughly approximately about around; precisely exactly;
    """
)

FUNCTION_WORDS = _words(
    """
    a an the of in on at to by for from with into onto about over under up down out off again per via through against
    upon within among along across between until during before after while because
    as is are was were be been being am has have had do does did doing will would shall can could may might must should
    and or but if than then that this these those there here so such not no nor only own too also very just
    it its he she they them their his her him hers theirs we us our you your i me my who whom whose which what when
    where why how same both each other another some any more most
    it's s t re ve ll d m
    """
)
NEGATIONS = _words(
    """
    not no never none neither nor without cannot nobody nothing nowhere unable
    fail failed fails lack lacks lacking
    """
)
# Words that limit or grade a statement.
QUALIFIERS = _words(
    """
    only just exclusively solely merely limited restricted partial partially partly slightly somewhat moderately
    significantly greatly extremely very
    """
)
# A text in the first person, or a text that addresses somebody, is talk and not a summary.
SPEAKERS = _words("i i'm i'll i've i'd me my you you're you'll you've your yours let's please")
# Words that open an answer and state nothing. `no` is left out because it often denies what follows.
INTERJECTIONS = _words("yes yeah yep yup nope nah oh ah well haha lol wow hey hi hello ok okay sure")
_UNITS = _entries(
    """
    two second twice double; three third; four fourth; five fifth; six; seven; eight; nine; ten; eleven; twelve;
    thirteen; fourteen; fifteen; sixteen; seventeen; eighteen; nineteen; twenty;
    """
)
_TENS = _entries("thirty; forty; fifty; sixty; seventy; eighty; ninety; hundred;")
# Maps each number word to its figures. `one` and `first` are left out because they often mean something else.
NUMBER_WORDS = {word: str(number) for number, words in enumerate(_UNITS, start=2) for word in words.split()} | {
    word: str(10 * tens) for tens, word in enumerate(_TENS, start=3)
}
# Words that are always numbers, unlike `second` and `double`.
CARDINALS = frozenset(words.split()[0] for words in _UNITS) | frozenset(_TENS)
