"""A logger per request: the logging module keeps every one by its name."""

import logging

from pace import rounds

KIND = "logging"
HOLDER = ("logging.root.manager.loggerDict", "logging.Logger.manager.loggerDict")

for number in rounds(100):
    logging.getLogger(f"request.{number}").setLevel(logging.INFO)  # the leak
