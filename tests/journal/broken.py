"""Journals that break rules on purpose: what is wrong, the rules that it breaks, the journal."""

from tests.journal.story import Story, ready

from paraudio.journal import Kind

BROKEN: dict[str, tuple[str, Story]] = {
    "a number is missing": ("sequence", Story().phase("running").skip().phase("stopping")),
    "a number comes twice": ("sequence", Story().phase("running").skip(-1).phase("stopping")),
    "the beginning is missing": ("sequence", Story().skip(4).phase("running")),
    "time runs backwards": ("sequence", Story().held(1, 0).later(-1).released(1, 0)),
    "a fact is missing": ("facts", Story().tell(Kind.LEFT, ticket=1)),
    "a fact has the wrong type": ("facts", Story().tell(Kind.LEFT, ticket="1", why="timeout")),
    "a flag is taken for a number": ("facts", Story().tell(Kind.LEFT, ticket=True, why="timeout")),
    "a list has a wrong item": ("facts", Story().tell(Kind.GRANTED, ticket=1, slots=["0"])),
    "a model is not named": ("facts", Story().tell(Kind.LEFT, None, ticket=1, why="timeout")),
    # Admission
    "granted, never queued": ("queued", Story().granted(1, 0)),
    "left, never queued": ("queued", Story().left(1)),
    "released, never queued": ("queued", Story().released(1, 0)),
    "resized by nobody": ("queued", Story().resized(3, 2)),
    "queued out of order": ("queued", Story().held(2, 0)),
    "queued twice": ("queued", Story().held(1, 0).released(1, 0).held(1, 0)),
    "granted twice": ("lease", Story().held(1, 0).granted(1, 0)),
    "granted after it left": (
        "lease",
        Story().held(1, 0).queued(2).left(2).granted(2, 1),
    ),
    "left with a lease": ("lease", Story().held(1, 0).left(1)),
    "released twice": ("lease", Story().held(1, 0).released(1, 0).released(1, 0)),
    "released before the grant": ("lease", Story().held(1, 0).queued(2).released(2, 1)),
    "released other slots": ("lease", Story().held(1, 0).released(1, 1)),
    "resized by a request": ("lease", Story().held(1, 0).resized(1, 3)),
    "stuck without a lease": ("lease", Story().held(1, 0).released(1, 0).stuck(1, 0)),
    "released while stuck": ("stuck", Story().held(1, 0).stuck(1, 0).released(1, 0)),
    "stuck twice": ("stuck", Story().held(1, 0).stuck(1, 0).stuck(1, 0)),
    "freed and not stuck": ("stuck", Story().held(1, 0).freed(1, 0)),
    "passed an older request": (
        "fifo",
        Story().registered(1).held(1, 0).queued(2).queued(3).released(1, 0).granted(3, 0),
    ),
    "passed a queued manager": (
        "barrier",
        Story().registered(2).held(1, 0).queued(2, manager=True).queued(3).granted(3, 1),
    ),
    "a manager passed a manager": (
        "barrier",
        Story()
        .registered(1)
        .held(1, 0)
        .queued(2, manager=True)
        .queued(3, manager=True)
        .released(1, 0)
        .granted(3, 0),
    ),
    "a manager beside a request": (
        "exclusive slots",
        Story().registered(2).held(1, 0).queued(2, manager=True).granted(2, 0, 1),
    ),
    "a request beside a manager": (
        "exclusive slots",
        Story().held(1, 0, 1, manager=True).queued(2).granted(2, 0),
    ),
    "a slot with two owners": ("slots", Story().registered(2).held(1, 0).held(2, 0)),
    "a slot out of range": ("slots", Story().registered(2).held(1, 2)),
    "a slot that resizing took away": (
        "slots",
        Story()
        .registered(3)
        .held(1, 0, 1, 2, manager=True)
        .resized(1, 2)
        .released(1, 0, 1, 2)
        .held(2, 2),
    ),
    "a request with two slots": ("slots", Story().registered(2).held(1, 0, 1)),
    "a manager without all slots": ("slots", Story().registered(3).held(1, 0, 1, manager=True)),
    "a free slot and a waiting head": (
        "stranded",
        Story().registered(2).held(1, 0).queued(2).queued(3).left(3),
    ),
    "a head left and stranded its follower": (
        "stranded",
        Story().registered(2).held(1, 0).queued(2, manager=True).queued(3).left(2).released(1, 0),
    ),
    "a free model and a waiting manager": (
        "stranded",
        Story().held(1, 0).queued(2, manager=True).released(1, 0).queued(3),
    ),
    "waited beyond its bound": (
        "wait",
        Story()
        .registered(1)
        .held(1, 0)
        .queued(2, bound_ms=1000)
        .later(1.5)
        .released(1, 0)
        .granted(2, 0),
    ),
    "waits for ever": (
        "wait",
        Story().registered(1).held(1, 0).queued(2, bound_ms=1000).later(9).released(1, 0),
    ),
    "timed out too early": (
        "wait",
        Story().registered(1).held(1, 0).queued(2, bound_ms=1000).later(0.9).left(2, "timeout"),
    ),
    # Lifecycle
    "loaded under no lease": (
        "leased",
        ready()
        .held(2, 0)
        .released(2, 0)
        .held(3, 0, 1, manager=True)
        .retired(3, 1)
        .destroyed(1)
        .released(3, 0, 1)
        .loading(2, 2),
    ),
    "loaded under an unknown ticket": ("leased", Story().registered(2).loading(7, 1)),
    "retired under no lease": ("leased", ready().retired(None, 1, "idle")),
    "committed by a request": ("leased", ready().held(2, 0).committed(2, 2, 2)),
    "two loads at a time": (
        "load",
        Story().registered(2).held(1, 0).held(2, 1).loading(1, 1).loading(2, 2),
    ),
    "a load over a pool": ("load", ready().held(2, 0).loading(2, 2)),
    "a generation twice": (
        "load",
        Story().registered(2).held(1, 0).loading(1, 1).failed(1, 1).loading(1, 1),
    ),
    "a load that failed twice": (
        "load",
        Story().registered(2).held(1, 0).loading(1, 1).failed(1, 1).failed(1, 1),
    ),
    "published in part": ("published", Story().registered(2).held(1, 0).loaded(1, 1, sessions=1)),
    "published for the slots before": (
        "published",
        Story().registered(2).held(1, 0, 1, manager=True).resized(1, 3).loaded(1, 1, sessions=2),
    ),
    "published, never loaded": ("published", Story().registered(2).held(1, 0).published(1, 1)),
    "published twice": ("published", Story().registered(2).held(1, 0).loaded(1, 1).published(1, 1)),
    "published another configuration": (
        "published",
        Story().registered(2).held(1, 0).loading(1, 1).published(1, 1, config=2),
    ),
    "destroyed, never retired": ("retired", ready().destroyed(1)),
    "destroyed twice": (
        "retired",
        ready().held(2, 0, 1, manager=True).retired(2, 1).destroyed(1).destroyed(1),
    ),
    "retired twice": (
        "retired",
        ready().held(2, 0, 1, manager=True).retired(2, 1).retired(2, 1),
    ),
    "retired what was never loaded": ("retired", ready().held(2, 0, 1, manager=True).retired(2, 9)),
    "retired under a run": (
        "retired",
        ready().held(2, 0, request="r").bound("r", 2).runs("r", 2).retired(2, 1),
    ),
    "registered twice": ("configuration", ready().registered(2)),
    "registered with other slots than its queue": (
        "configuration",
        Story().held(1, 0, 1, manager=True).registered(3),
    ),
    "committed before the registration": (
        "configuration",
        Story().held(1, 0, 1, manager=True).committed(1, 2, 1),
    ),
    "a configuration left out": (
        "configuration",
        ready().held(2, 0, 1, manager=True).committed(2, 2, 3),
    ),
    "committed slots that the queue does not get": (
        "configuration",
        ready().held(2, 0, 1, manager=True).resized(2, 3).committed(2, 4, 2),
    ),
    "loaded an old configuration": (
        "configuration",
        Story().registered(2).held(1, 0, 1, manager=True).committed(1, 2, 2).loading(1, 1, 1),
    ),
    "a state from nowhere": ("state", Story().state("ready", "unloading")),
    "a state that was left before": ("state", ready().state("unloaded", "loading")),
    # Requests
    "bound to another configuration": ("binding", ready().held(2, 0).bound("r", 2, config=2)),
    "bound after the release": ("binding", ready().held(2, 0).released(2, 0).bound("r", 2)),
    "bound to no ticket": ("binding", ready().bound("r", 9)),
    "ran without a lease": (
        "run",
        ready().held(2, 0).bound("r", 2).released(2, 0).runs("r", 2),
    ),
    "ran in a slot of another": ("run", ready().held(2, 0).bound("r", 2).runs("r", 2, slot=1)),
    "ran without being bound": ("run", ready().held(2, 0).runs("r", 2)),
    "ran under the ticket of another": ("run", ready().held(2, 0).bound("r", 2).runs("q", 2)),
    "ran twice at a time": ("run", ready().held(2, 0).bound("r", 2).runs("r", 2).runs("r", 2)),
    "ended a run of another": (
        "run",
        ready().held(2, 0).bound("r", 2).runs("r", 2).ran("q", 2),
    ),
    "ended a run that never began": ("run", ready().held(2, 0).bound("r", 2).ran("r", 2)),
    "ran before the publication": (
        "run",
        Story().registered(2).held(1, 0).bound("r", 1).loading(1, 1).runs("r", 1),
    ),
    "ran on a retired generation": (
        "run",
        ready().held(2, 0).bound("r", 2).retired(2, 1, "broken").runs("r", 2),
    ),
    "ran on what was never loaded": (
        "run",
        ready().held(2, 0).bound("r", 2).runs("r", 2, generation=5),
    ),
    "ran on another configuration": (
        "run",
        Story()
        .registered(2)
        .held(1, 0, 1, manager=True)
        .committed(1, 2, 2)
        .loaded(1, 1, config=2)
        .bound("r", 1)
        .runs("r", 1),
    ),
    "a client is gone and its ticket waits": (
        "disconnect",
        Story().registered(1).held(1, 0).queued(2, request="r").gone("r").later(0.4).left(2),
    ),
    "a client is gone and its slot is held for somebody's load": (
        "disconnect",
        Story()
        .registered(2)
        .held(1, 0)
        .loading(1, 1)
        .held(2, 1, request="r")
        .gone("r")
        .later(0.4)
        .released(2, 1),
    ),
    "a client is gone at the end": (
        "disconnect",
        Story().registered(1).held(1, 0).queued(2, request="r").gone("r").later(9).released(1, 0),
    ),
    "facts of another configuration": (
        "configuration",
        Story().registered(1).tell(Kind.INSPECTED, config=2),
    ),
    "a call is given up out of order": (
        "abandoned",
        Story().registered(1).abandoned(2),
    ),
    "a call is given up twice": (
        "abandoned",
        Story().registered(1).abandoned(1).abandoned(1),
    ),
    "a call returns that was never given up": (
        "abandoned",
        Story().registered(1).abandoned(1).returned(2),
    ),
    "a call returns twice": (
        "abandoned",
        Story().registered(1).abandoned(1).returned(1).returned(1),
    ),
    "a call is given up while its load goes on": (
        "abandoned",
        Story().registered(1).held(1, 0).loading(1, 1).abandoned(1),
    ),
    # The server
    "an unknown phase": ("phase", Story().phase("running").phase("dreaming")),
    "a first phase that is not the first": ("phase", Story().phase("draining")),
    "a phase back": ("phase", Story().phase("running").phase("stopping").phase("draining")),
    "a phase twice": ("phase", Story().phase("running").phase("draining").phase("draining")),
    "granted while stopping": ("phase", Story().phase("running").phase("stopping").held(1, 0)),
    "a ticket waits at the end": (
        "balance",
        Story()
        .phase("running")
        .registered(1)
        .held(1, 0)
        .queued(2)
        .phase("stopping")
        .cut()
        .phase("stopped"),
    ),
    "a lease is held at the end": (
        "balance",
        Story().phase("running").held(1, 0).phase("stopped"),
    ),
    "a pool is left at the end": ("balance", ready().phase("stopped")),
    "a run is left at the end": (
        "balance",
        ready().held(2, 0).bound("r", 2).runs("r", 2).released(2, 0).phase("stopped"),
    ),
}
