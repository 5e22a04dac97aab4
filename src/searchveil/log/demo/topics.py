"""What people search for: twenty topics, each with its things, the aspects asked about them, qualities and verbs.

Every entry is one word, so that the number of words of a query follows from its form alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    name: str
    things: tuple[str, ...]
    aspects: tuple[str, ...]
    qualities: tuple[str, ...]
    verbs: tuple[str, ...]


def _topic(name: str, things: str, aspects: str, qualities: str, verbs: str) -> Topic:
    return Topic(name, *(tuple(words.split()) for words in (things, aspects, qualities, verbs)))


TOPICS: tuple[Topic, ...] = (
    _topic(
        "health",
        """asthma arthritis migraine diabetes eczema insomnia allergy anemia bronchitis bursitis cholesterol
        concussion cough depression dizziness fever gallstones gout headache heartburn hives hypertension influenza
        measles menopause mononucleosis nausea neuropathy osteoporosis pneumonia psoriasis rash sciatica scoliosis
        shingles sinusitis snoring sprain stroke tendonitis tinnitus tonsillitis ulcer vertigo vitamins whiplash
        pregnancy vaccine dentist orthodontist""",
        """symptoms treatment causes diagnosis medication remedies prevention surgery diet doctors statistics
        specialist exercises pictures stages""",
        "chronic natural childhood severe mild adult herbal seasonal acute recurring alternative homeopathic",
        "treat cure prevent diagnose manage relieve",
    ),
    _topic(
        "food",
        """lasagna meatloaf chili pancakes waffles cheesecake brownies cornbread coleslaw dumplings enchiladas
        fajitas gumbo hummus jambalaya ketchup lentils marinade meringue muffins noodles omelet paella pesto pickles
        pierogi pizza quiche ravioli risotto salmon sauerkraut shrimp soup stew stuffing sushi tacos tiramisu trifle
        turkey brisket casserole chowder cookies fudge gingerbread guacamole icing jerky""",
        "recipe ingredients calories nutrition sauce restaurant toppings cookbook leftovers filling glaze mix",
        "easy homemade vegetarian spicy baked grilled creamy southern holiday crockpot healthy frozen",
        "cook bake freeze reheat season serve",
    ),
    _topic(
        "cars",
        """brakes transmission alternator bumper carburetor clutch dashboard exhaust fender gearbox headlights
        hubcaps ignition muffler radiator sunroof suspension tires windshield wipers convertible coupe hatchback
        minivan motorcycle pickup roadster sedan trailer truck camper scooter limousine offroader towbar airbag axle
        battery crankshaft dipstick driveshaft engine gasket manifold odometer piston sparkplug starter steering
        thermostat""",
        "parts repair dealers prices insurance reviews accessories manual diagram recall rental auction warranty",
        "used rebuilt aftermarket custom chrome diesel classic automatic hybrid salvage discount vintage",
        "fix replace install tune clean rebuild",
    ),
    _topic(
        "travel",
        """flights hotels cruises resorts airfare motels cabins hostels villas campgrounds beaches luggage
        passports visas timeshares ferries trains buses lighthouses
        museums casinos aquarium zoo safari skiing snorkeling
        rafting backpacking honeymoon vacations tours itinerary airport lodging cottages condos islands caverns
        waterfalls monuments parks trails boardwalk gondola yacht houseboat chalet bungalow sightseeing excursions""",
        "deals packages map reservations coupons schedule guide photos attractions tickets brochure discounts",
        "cheap luxury lastminute family romantic oceanfront affordable secluded tropical inclusive historic guided",
        "book plan visit compare reserve find",
    ),
    _topic(
        "music",
        """guitar piano violin saxophone drums trumpet clarinet banjo mandolin harmonica accordion cello flute
        harp organ ukulele keyboard karaoke ringtones bluegrass reggae gospel polka techno opera jazz salsa ballads
        hymns lullabies metronome amplifier microphone turntable vinyl headphones chords melody orchestra choir
        quartet bagpipes bongos cymbals dulcimer oboe tambourine trombone tuba xylophone""",
        "lyrics tabs lessons songs downloads concert festival strings sheets tuner videos history album",
        "acoustic electric beginner country christmas vintage live classical celtic instrumental secondhand rare",
        "play tune learn record buy restring",
    ),
    _topic(
        "games",
        """solitaire sudoku checkers chess backgammon bingo blackjack crossword dominoes hangman mahjong
        pinball poker puzzles roulette anagrams blocks trivia hearts spades cribbage euchre rummy liarsdice billiards
        foosball darts arcade simulator roleplaying emulator joystick console paintball marbles charades hopscotch
        jigsaw labyrinth minesweeper platformer racing shooter snooker wordsearch kites yoyo boomerang cornhole
        horseshoes""",
        "cheats rules online downloads strategy tournament walkthrough codes scores boards tips multiplayer",
        "free printable multiplayer classic kids addictive retro beginner flash puzzle championship mobile",
        "play win download beat learn unlock",
    ),
    _topic(
        "home",
        """curtains carpet couch dishwasher dresser faucet fireplace flooring furnace gutters hammock
        insulation lampshade linoleum mattress microwave mirror oven paneling plumbing quilt recliner refrigerator
        roofing sewer shelves shingling shower shutters siding sink skylight sofa stairs stove tile toilet towels
        vacuum ventilation wallpaper washer windows wiring bathtub blinds bookcase cabinets chandelier countertop""",
        "installation repair prices ideas plans designs clearance store replacement parts colors measurements",
        "antique leather wooden modern stainless portable discount rustic ceramic waterproof upholstered cordless",
        "install repair clean paint remove insulate",
    ),
    _topic(
        "garden",
        """roses tulips lilies orchids ferns hydrangea hostas azaleas begonias bonsai cactus clematis compost
        daffodils dogwood fertilizer fountain gazebo geraniums gladiolus greenhouse hedges hibiscus irrigation ivy
        jasmine lavender lawnmower magnolia marigolds mulch oleander pansies peonies perennials petunias pergola pond
        rhododendron rosemary sprinkler squash sunflowers tomatoes trellis wisteria zinnias birdhouse beehive
        wheelbarrow""",
        "care seeds pruning nursery planting diseases pictures bulbs supplies varieties fungus landscaping",
        "organic outdoor climbing dwarf hardy shade drought wild indoor flowering heirloom miniature",
        "grow plant prune water transplant trim",
    ),
    _topic(
        "fashion",
        """dresses jeans sandals boots handbags jewelry earrings bracelets necklaces sunglasses watches
        sweaters scarves gloves hats jackets leggings lingerie moccasins pajamas perfume purses raincoats robes
        skirts slippers sneakers socks suits swimsuits tuxedos umbrellas uniforms vests wallets wigs aprons bandanas
        blouses bonnets brooches cardigans clogs corsets cufflinks hairstyles kimono makeup nightgowns overalls""",
        "sizes outlet catalog patterns styles wholesale boutique trends sale designers accessories shops",
        "plus vintage designer leather womens mens discount bridal petite formal handmade silver",
        "wear sew alter clean match shrink",
    ),
    _topic(
        "electronics",
        """camera camcorder printer scanner laptop monitor modem router speakers television projector
        calculator webcam firewall hardware motherboard keypad joypad pager radio receiver recorder satellite shredder
        smartphone software stereo tablet telescope thermometer toner tripod walkie antenna binoculars cables charger
        earbuds flashlight hologram inverter jukebox laminator megaphone multimeter oscilloscope photocopier remote
        sensor transformer""",
        """drivers reviews manual download comparison troubleshooting
        prices adapter warranty upgrade specifications support""",
        """wireless digital refurbished cheap portable handheld
        compact bluetooth waterproof flatscreen rechargeable mini""",
        "connect reset install upgrade repair troubleshoot",
    ),
    _topic(
        "school",
        """algebra geometry calculus biology chemistry physics spelling grammar phonics vocabulary worksheets
        scholarships kindergarten preschool homework essay thesis textbooks tutoring college university diploma
        transcripts cafeteria classroom curriculum dictionary encyclopedia fractions handwriting homeschool library
        literature multiplication philosophy poetry psychology reading science semester sociology spanish syllabus
        trigonometry yearbook flashcards economics anatomy botany linguistics""",
        "lessons answers test programs requirements online grants teachers activities definitions help exam",
        "elementary graduate printable advanced secondary accredited remedial summer free bilingual basic introductory",
        "teach learn study pass solve grade",
    ),
    _topic(
        "sports",
        """baseball basketball football soccer hockey tennis golf volleyball wrestling gymnastics swimming
        softball lacrosse rugby cricket archery badminton bowling boxing canoeing cheerleading climbing croquet
        curling cycling diving fencing fishing hiking hunting javelin jogging judo karate kayaking kickboxing marathon
        paddleball racquetball rodeo rowing sailing skateboard skydiving snowboard surfing triathlon weightlifting
        yoga trampoline""",
        "scores schedule equipment tickets rules roster camps drills league coach playoffs uniforms stadium",
        "youth college professional womens varsity indoor amateur junior senior olympic minor regional",
        "coach play train score improve watch",
    ),
    _topic(
        "jobs",
        """accountant architect bartender bookkeeper carpenter cashier chef clerk electrician engineer
        firefighter hairdresser janitor landscaper lawyer librarian locksmith machinist mechanic nanny nurse
        paralegal paramedic pharmacist photographer pilot plumber policeman receptionist salesman seamstress secretary
        surveyor tailor teacher technician translator trucker veterinarian waitress welder writer apprentice
        bricklayer courier dispatcher forklift geologist optometrist stenographer""",
        "jobs salary resume training certification openings agency interview license benefits hiring association",
        "parttime certified experienced freelance temporary licensed overseas entrylevel weekend federal state remote",
        "become hire find interview train fire",
    ),
    _topic(
        "money",
        """mortgage loans refinancing annuity bankruptcy bonds budget checking credit debt dividends escrow
        foreclosure inflation insurance investing lottery overdraft payroll pension retirement savings securities
        stocks taxes treasury trust wages audit banking bookkeeping brokerage collateral commodities currency deeds
        equity estate inheritance invoice leasing lien mutual probate rebate refund royalties subsidy tariff
        timber""",
        "rates calculator forms advice company online lenders laws application consolidation report quotes",
        "fixed low bad commercial federal small personal delinquent unsecured shortterm deductible joint",
        "calculate file avoid refinance consolidate report",
    ),
    _topic(
        "pets",
        """puppies kittens poodle beagle dachshund bulldog chihuahua collie retriever spaniel terrier rottweiler
        schnauzer labrador dalmatian greyhound mastiff parrots canary cockatiel finches hamster gerbil guinea ferret
        rabbit turtle tortoise iguana gecko snake tarantula goldfish guppies koi horses pony goats llama alpaca
        chickens ducks hedgehog chinchilla tabby siamese persian calico bloodhound whippet""",
        "breeders rescue training food names grooming cages adoption behavior supplies lifespan kennel vet",
        "miniature purebred baby aggressive longhaired rescued pregnant small stray toy domestic adult",
        "train feed breed adopt groom housebreak",
    ),
    _topic(
        "screen",
        """movies cartoons sitcoms soaps westerns musicals documentaries trailers actors actresses anime
        comics posters premieres sequels theaters thrillers horror comedies celebrities gossip magicians ventriloquist
        stuntmen superheroes vampires zombies werewolves pirates wizards aliens robots dinosaurs mermaids ghosts
        detectives gangsters cowboys ninjas spies villains heroines screenplay soundtrack subtitles matinee puppets
        reruns blooper cliffhanger""",
        "cast episodes reviews pictures downloads quotes showtimes wallpaper spoilers rumors biography clips",
        "animated silent foreign upcoming famous funny independent scary lowbudget awardwinning cult black",
        "watch download rent draw stream review",
    ),
    _topic(
        "family",
        """wedding bridesmaid baptism anniversary graduation birthday babyshower reunion engagement divorce
        adoption babysitter cradle crib stroller highchair diapers toddler twins grandparents genealogy ancestry
        cemetery obituary funeral invitations centerpieces bouquet caterer cake favors vows toast party costumes
        balloons pinata confetti halloween thanksgiving christmas easter hanukkah valentines scrapbook keepsake
        heirloom nursery playpen carseat""",
        "ideas gifts invitations poems decorations cards records themes etiquette checklist crafts supplies",
        "unique elegant inexpensive personalized traditional themed homemade outdoor printable silly catholic jewish",
        "plan decorate celebrate organize announce host",
    ),
    _topic(
        "crafts",
        """crochet knitting quilting embroidery needlepoint beading candles pottery origami woodworking
        weaving stenciling stamping macrame leathercraft decoupage calligraphy basketry applique batik soapmaking
        taxidermy whittling yarn buttons ribbon sequins felt glitter mosaic easel sculpture watercolor charcoal
        canvas looms spinning lace tatting upholstery stainedglass jewelrymaking carving doilies potholders afghans
        dollhouse birdfeeder windchimes rugmaking""",
        "patterns kits supplies instructions classes tools magazine projects templates workshop stores books",
        "easy beginner free antique handmade christmas childrens advanced decorative miniature amish country",
        "make start finish sell frame learn",
    ),
    _topic(
        "local",
        """apartments realtor bakery barbershop florist laundromat bookstore church synagogue mosque hospital
        clinic courthouse daycare deli diner drugstore gym hardwarestore jeweler landfill marina mortuary newspaper
        nightclub orchard pawnshop playground postoffice prison pub racetrack salon sheriff spa storage supermarket
        tavern towing townhouses warehouse weather winery zoning bank carwash movers plumbers contractors
        electricians""",
        "hours directions phone listings rentals address jobs reviews locations department services complaints",
        "downtown nearby public county local private affordable historic open suburban 24hour reputable",
        "find rent contact visit report locate",
    ),
    _topic(
        "knowledge",
        """earthquakes volcanoes tornadoes hurricanes glaciers planets comets galaxies fossils minerals atoms
        electrons photosynthesis evolution gravity magnetism pyramids pharaohs gladiators knights castles vikings
        samurai aztecs incas colonies pilgrims presidents constitution amendments slavery railroads revolution
        armistice submarines battleships explorers inventions dolphins whales sharks penguins eagles elephants
        tigers butterflies spiders reptiles rainforest deserts""",
        "facts history pictures timeline diagram maps quotes definition theory discovery articles names",
        "ancient medieval extinct famous endangered deepest colonial american prehistoric tropical military giant",
        "explain draw describe identify measure classify",
    ),
)
