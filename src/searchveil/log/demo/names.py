"""Generic names of people, places and makers, to be combined freely: nobody in particular."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN_NAMES = _words(
    """aaron abigail adam adrian alan albert alice alicia allison amanda amber amy andrea andrew angela anita ann
    anna anthony arlene arthur ashley audrey barbara barry beatrice becky benjamin bernard beth betty beverly bill
    bonnie bradley brandon brenda brian bruce carl carla carmen carol caroline catherine cecilia charles charlotte
    cheryl chris christina cindy claire clara claudia clifford connie craig crystal curtis cynthia daisy dale dana
    daniel darlene david dawn deborah denise dennis diana diane donald donna doris dorothy douglas earl edith edna
    edward eileen elaine eleanor elizabeth ellen emily emma eric erica erin ernest esther ethel eugene eva evelyn
    faith felicia florence frances francis frank fred gail gary gene george gerald gladys glen gloria gordon grace
    greg gwen hannah harold harriet harry hazel heather helen henry herbert holly howard ida irene irma isaac jack
    jacob james jamie jane janet janice jasper jean jeff jennifer jeremy jerome jerry jesse jessica jill joan joanne
    joe john jonathan joseph joshua joyce juan juanita judith judy julia julie june karen karl katherine kathleen
    kathy keith kelly kenneth kevin kim kristen kurt kyle larry laura lauren laurie lawrence leah lena leo leon leona
    leslie lillian linda lisa lloyd lois loretta lori lorraine louis louise lucille lucy luis lydia lynn mabel
    marcia margaret maria marian marie marilyn marion marjorie mark marsha martha martin marvin mary matthew maureen
    maurice max megan melanie melissa melvin michael michele mildred milton minnie miriam molly monica myrtle nancy
    naomi natalie nathan neil nicholas nicole nina noah nora norma norman olga olive oliver oscar pamela patricia
    patrick paul paula pauline pearl peggy penny peter philip phyllis rachel ralph ramona randy raymond rebecca
    regina renee rhonda ricardo richard rita robert roberta robin rodney roger roland ronald rosa rosemary roy ruby
    russell ruth ryan sally samuel sandra sara scott shannon sharon shawn sheila shelly sherry shirley sidney sonia
    stacy stanley stella stephanie stephen steve stuart sue susan suzanne sylvia tamara tammy tanya teresa terry
    thelma theresa thomas tiffany tim tina todd tony tracy travis valerie vanessa vera verna vernon vicki victor
    victoria vincent viola violet virginia vivian wallace walter wanda warren wayne wendy wesley willard william
    willie wilma yolanda yvonne zachary zoe"""
)

SURNAMES = _words(
    """abbott ackerman adams adkins albright aldridge allen alvarez anderson andrews archer armstrong arnold ashby
    atkins austin avery ayers bailey baker baldwin ballard banks barber barker barlow barnes barnett barrett barton
    bates bauer baxter beasley becker bell bender bennett benson berger bishop blackburn blair blake blanchard bolton
    booth bowers bowman boyd boyle bradford bradshaw brady brennan briggs brock brooks browning bryant buchanan buckley
    burgess burke burnett burns burton bush butler byrd cain caldwell calhoun callahan cameron campbell cannon
    cardenas carey carlson carpenter carr carroll carson carter carver casey chambers chandler chapman chavez christian
    clark clay clayton clements cline coleman collier collins compton conley conner conrad conway cook cooper copeland
    cortez costa cowan crawford crosby cross cummings cunningham curry dalton daniels daugherty davenport davidson
    davis dawson decker delaney delgado dennison diaz dickson dillard dixon dobbs dodson dolan donahue dorsey doyle
    drake draper driscoll duffy duncan dunlap durham dwyer dyer eaton edwards elliott ellison emerson english erickson
    espinoza estes eubanks evans everett farley farmer farrell faulkner ferguson fernandez fields finch finley fischer
    fisher fitzgerald fleming fletcher flores flynn foley forbes ford foreman foster fowler fox franklin frazier
    freeman frost fuller gaines gallagher galloway garcia gardner garner garrett garrison gentry gibbs gibson gilbert
    gill gilmore glass glenn glover golden gomez goodman goodwin graham grant graves gray greene greer gregory griffin
    grimes gross guerrero guthrie haley hamilton hammond hampton hancock hansen harding hardy harmon harper harrell
    harrington harris hartman harvey hatfield hawkins hayden hayes haynes heath hebert henderson hendricks henson
    herman hernandez herrera hess hickman hicks higgins hill hines hobbs hodges hoffman hogan holcomb holden holland
    holloway holmes holt hooper hoover hopkins horne horton houston howell hubbard huber hudson huff huffman hughes
    humphrey hunter hurley hurst hutchinson ibarra ingram irwin jackson jacobs jacobson jarvis jefferson jenkins
    jennings jensen jimenez johnson johnston jones jordan joyner kaufman keller kelley kemp kendall kennedy kent kerr
    kirby kirkland klein knapp knox koch kramer lambert landry lane larsen larson lawson leach leblanc lester levine
    lewis lindsay little livingston lockhart logan lopez lott lowe lowery lucas lynch lyons macdonald mack madden
    maddox mahoney maldonado malone mann marks marquez marsh marshall martinez mason massey mathews maxwell mayer
    maynard mcbride mccall mccarthy mccoy mccullough mcdaniel mcdowell mcfarland mcgee mcgrath mcguire mcintosh mckay
    mckenzie mckinney mclaughlin mcmahon meadows medina melton mendoza mercer merrill meyer middleton miles miller
    mills mitchell monroe montgomery moody moon mooney moore morales moran moreno morgan morris morrison morrow morse
    morton moses moss mueller mullen mullins murphy murray myers nash navarro neal nelson newell newman newton nichols
    nicholson nielsen nixon nolan norris norton nunez obrien oconnor odell odonnell oliver olsen oneal orozco orr
    ortega ortiz osborne owens pace padilla page palmer parker parks parrish parsons patel patterson patton payne
    pearson peck pena pennington perez perkins peters peterson phelps phillips pierce pittman pitts platt polk poole
    porter potter powell powers pratt preston price prince proctor pruitt pugh quinn ramirez ramos randall randolph
    rankin ray raymond reese reeves reilly reyes reynolds rhodes richards richardson riddle riggs riley rios ritter
    rivera roach robbins robertson robinson robles rodgers rodriguez rojas rollins roman romero rosales rosario rowe
    rowland rubio rush russo ryan salazar salinas sampson sanchez sanders sandoval santiago santos sargent saunders
    savage sawyer schaefer schmidt schneider schroeder schultz schwartz sears sellers serrano sexton shaffer shannon
    sharpe shelton shepherd sheridan sherman shields short silva simmons simpson sims singleton skinner slater sloan
    small snow snyder solomon sosa sparks spencer stafford stanton stark steele stein stephens stephenson stevenson
    stewart stokes stone stout strickland strong stuart suarez sullivan summers sutton swanson sweeney sweet sykes
    talley tanner tate taylor terrell thornton tillman todd torres townsend trujillo tucker turner tyler underwood
    valdez valencia vance vargas vasquez vaughan vega velasquez velez villarreal vinson wade wagner walker wallace
    waller walls walsh walters walton ward ware warner watkins watson watts weaver webb weber webster weeks weiss
    welch wells west wheeler whitaker whitehead whitfield whitley whitney wiggins wilcox wilder wiley wilkerson
    wilkins wilkinson williamson willis wilson winters wise witt wolfe wong woodard woods woodward wooten workman
    wright wyatt yates york young zamora zimmerman"""
)

PLACES = _words(
    """abilene akron albany albuquerque allentown amarillo anaheim anchorage arlington asheville aspen athens atlanta
    augusta aurora austin bakersfield baltimore bangor beaumont bellevue bethlehem billings biloxi birmingham bismarck
    bloomington boise boston boulder bozeman bradenton bridgeport brooklyn brownsville buffalo burbank burlington
    cambridge canton carlsbad casper charleston charlotte chattanooga cheyenne chicago cincinnati clarksville
    clearwater cleveland columbia columbus concord dallas danbury davenport dayton daytona decatur denver detroit
    dover dubuque duluth durham elgin elmira erie eugene evanston evansville everett fairbanks fargo fayetteville
    flagstaff flint fontana frederick fresno fullerton gainesville galveston gary gilbert glendale greensboro
    greenville gulfport hampton harrisburg hartford henderson hialeah hoboken hollywood honolulu houston huntsville
    independence indianapolis irvine ithaca jackson jacksonville jamestown joliet juneau kalamazoo kenosha killeen
    knoxville lafayette lakeland lakewood lancaster lansing laredo lawrence lexington lincoln louisville lowell
    lubbock lynchburg macon madison manchester mankato memphis mesa miami midland milwaukee minneapolis missoula mobile
    modesto monterey montgomery muncie naperville naples nashville newark newport norfolk norman oakland oceanside
    ocala odessa ogden olympia omaha ontario orlando oxnard palmdale pasadena pensacola peoria philadelphia phoenix
    pittsburgh plano pocatello pomona portland poughkeepsie prescott providence provo pueblo quincy racine raleigh
    reading redding reno richmond riverside roanoke rochester rockford sacramento saginaw salem salinas savannah
    schenectady scottsdale scranton seattle shreveport sedona spokane springfield stamford stockton sunnyvale syracuse
    tacoma tallahassee tampa tempe topeka toledo trenton tucson tulsa tuscaloosa tyler utica vallejo ventura waco
    warwick waterbury waterloo wichita wilmington winchester worcester yonkers youngstown yuma"""
)

STATES = _words(
    """alabama alaska arizona arkansas california colorado connecticut delaware florida georgia hawaii idaho illinois
    indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi missouri montana
    nebraska nevada ohio oklahoma oregon pennsylvania tennessee texas utah vermont virginia washington wisconsin wyoming
    al ak az ar ca co ct fl ga id il in ks ky la md ma mi mn ms mo nc nd nh nj nm ny oh ok pa sc tn tx va wa wi"""
)

# Invented makers of things: no real brand.
MAKERS = _words(
    """aerolux alpenna arcona avantek balmore belvica bluegate brightway calibra castmore cedarline centaro claridon
    coldspring corvane crestway daltec deltona dormax duraline eastfield ecowise electra elkhorn evermont falconer
    farwell finessa fleetway florano fordham galaxis gatewell geneva glenmore goldcrest granville greenway halcyon
    hartwell highmark homewell hydromax ironside jetline kelmore kingsway lakeshore landmark larkin lexora lumina
    marlowe maxivale meridian metrolux milandor montrose northwind nordica novatek oakridge omnitec optima orbitel orion
    pacifica palisade panorex paragon pinnacle polarix prestige proline quantex quasar radiant regalia ridgeway
    riverton rockvale sentinel sierrana silverdale skyline solaris sonata sovereign spectra starline sterling stratus
    summit sunburst superion tamarack technor tempest titanix tradewind trident triton turnbull ultima unitech
    valiant vantage vectra velocity venture vertex victory vista volanta wellmark westbrook windmere woodland zenora
    zephyr"""
)
