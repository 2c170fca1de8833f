"""What every test of the project runs under."""

pytest_plugins = (
    "pytester",
    "tests.contract.plugin",
    "tests.loop_guard",
    "tests.models_fixture",
    "tests.server.results",
)
