"""Words of the web itself: the searches everybody makes, parts of site names, and words added to narrow a search."""

from __future__ import annotations


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().replace("\n", ",").split(",") if line.strip())


# The shared head, most popular first: half of it addresses, none of a real company.
HEAD_QUERIES = _lines(
    """
    websearch.com, weather, www.websearch.com, freemail.com, maps, auctionhall, websearch, yellow pages, myfriendspage
    www.freemail.com, mapfinder, lyrics, www.auctionhall.com, dictionary, white pages, freemail, online games, news
    auctionhall.com, horoscopes, www.myfriendspage.com, mapfinder.com, jobs, driving directions, hotels, airline tickets
    myfriendspage.com, bankofthevalley.com, ringtones, www.mapfinder.com, tv guide, cars for sale, lottery results, chat
    weatherdesk.com, www.bankofthevalley.com, recipes, real estate, free music downloads, cheap flights, people search
    www.weatherdesk.com, homehandyman.com, movies, used cars, bookbarn.com, cheats, zip codes, credit report, apartments
    www.bookbarn.com, shoppersworld.com, coupons, baby names, sports scores, phone book, tattoos, www.jobladder.com
    jobladder.com, song lyrics, greeting cards, screensavers, www.shoppersworld.com, flowers, dating, hairstyles, poems
    travelocean.com, yellowpagesplus.com, stock quotes, currency converter, funny pictures, www.travelocean.com, games
    ticketbooth.com, solitaire, prom dresses, reverse phone lookup, www.ticketbooth.com, translation, quotes, puppies
    moviehouse.com, www.yellowpagesplus.com, wallpaper, mortgage calculator, furniture, tax forms, www.moviehouse.com
    toyplanet.com, area codes, crossword puzzles, irs forms
    www.toyplanet.com, free games, used trucks, bible, vacations
    musicbox.com, www.musicbox.com, dogs, rental cars
    wedding dresses, cell phones, restaurants, homes for sale, valuebasket
    cartrader.net, www.valuebasket.com, valuebasket.com, insurance
    medical dictionary, world map, baseball, american flag
    www.cartrader.net, encyclopedia, free ringtones, online banking
    colleges, thesaurus, halloween costumes, race schedule
    sportsdesk.com, www.sportsdesk.com, cruises, scholarships
    spanish translation, tattoo designs, coloring pages, myspot
    photoalbum.com, www.photoalbum.com, motorcycles, boats for sale
    obituaries, time zones, gas prices, easter, mothers day
    """
)

SITE_WORDS = _lines(
    """
    my, the, all, best, top, easy, free, just, net
    web, world, planet, zone, spot, place, point, center, central, online
    direct, express, source, finder, search, guide, club, group
    team, link, links, house, home, shop, store, mart, market
    depot, outlet, mall, city, town, county, state, nation, global
    inter, euro, metro, pro, plus, max, super, mega, mini
    info, data, tech, soft, micro, digi, cyber, smart
    quick, fast, rapid, speedy, instant, daily, weekly, monthly, today
    tonight, times, post, press, journal, gazette, herald, tribune
    sentinel, voice, talk, chat, forum, board, blog, page
    pages, book, books, reader, library, school, academy, college, campus, class, tutor, teacher, kids, teen, baby, mom
    dad, family, senior, lady, guy, dude, girl, boy, pet, dog, cat, horse, bird, fish, farm, ranch, garden, flower, tree
    forest, lake, river, ocean, beach, island, mountain, valley, hill, creek, bay, harbor, port, bridge, gate, tower
    castle, palace, garage, auto, car, truck, motor, wheel, tire, parts, tool, build, builder, craft, maker, studio, art
    photo, pix, image, video, film, movie, music, song, tune, radio, dance, party, fun, joke, game, play, player, sport
    score, league, champ, golf, ski, surf, swim, run, bike, fit, health, med, care, clinic, dental, vision, heart, mind
    soul, life, live, love, date, match, bride, wedding, gift, card, toy, candy, cake, cook, chef, kitchen, food, diet
    wine, beer, coffee, tea, pizza, grill, diner, cafe, hotel, inn, travel, trip, tour, cruise, fly, air, jet, rail
    bus, taxi, road, route, map, atlas, weather, storm, sun, moon, star, sky, cloud, rain, snow, bank, cash, money
    credit, loan, fund, trade, stock, invest, tax, law, legal, job, work, career, hire, staff, office, paper, print
    """
)

SITE_STYLES = ("www.", "www.", "", "", "http://www.")
SITE_ENDINGS = (".com", ".com", ".com", ".com", ".com", ".net", ".org", ".edu", ".gov", ".info")

MODEL_LETTERS = _lines(
    "a, b, c, d, e, f, g, h, j, k, l, m, n, p, r, s, t, "
    "v, w, x, z, ax, bt, cd, cx, dx, ec, fx, gt, gx, hd, ix, jr, kx, lc, "
    "lx, mx, nx, ps, px, qs, rx, sd, se, sl, sx, tr, ts, tx, vx, wx, xl, xr, xt, yz, zr, zx"
)
MODEL_NUMBERS = tuple(str(number) for number in (*range(10, 100, 5), *range(100, 1000, 10), *range(1000, 9900, 25)))

# Words a searcher puts before or after a query to narrow it.
NARROWING_PREFIXES = _lines(
    "free, cheap, best, new, used, discount, online, local, buy, "
    "find, the, old, top, american, real, small, large, good, "
    "about, black, white, red, blue, green, homemade, vintage, popular, custom, funny, famous, official, original"
)
NARROWING_SUFFIXES = _lines(
    """
    pictures, online, for sale, free, reviews, prices, history
    information, photos, store, coupons, clip art, video, pics
    2024, 2023, ideas, company, website, home page, near me, in texas, in florida, in california, in ohio, in georgia
    new york, chicago, usa, canada, cost, download, list, map, address, phone number, jobs, rental, forum, tips, facts
    for kids, for women, for men, for beginners, for seniors, images, books, magazine, club, association, inc, services
    supplies, parts, repair, plans, directions, wholesale, cheap, review, quotes, names, show, music, games, software
    catalog, school, college, museum, today, tomorrow, schedule, hours, tickets, dates, events, news, articles, problems
    side effects, at home, help, support, instructions, definition, meaning, symbols, colors, types, kinds, brands
    dealers, manufacturers, distributors, comparison, ratings, discounts, outlet, shop, stores, mall, clearance, auction
    """
)
