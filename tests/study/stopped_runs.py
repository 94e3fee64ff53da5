"""Runs of a study in a folder that stop within, and what they left; no question is asked again."""

import pytest

from privmean.errors import PrivmeanError
from privmean.study.run_folder import held, run_in
from privmean.study.stored_answers import AnswerLog


class Killed(BaseException):
    """A process that ends here."""


def kept_in(out):
    """The answers that are kept in a folder that nobody uses, by their places."""
    with held(out) as folder:
        return dict(folder.answers)


def stopped(study, out, answers=1, run=run_in):
    """A run that was stopped after its charge, as its answer of this number was kept."""
    answer, left = AnswerLog.answer, [answers]

    def stopping(*arguments):
        if left[0]:
            found = answer(*arguments)
            left[0] -= 1
            if left[0]:
                return found
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AnswerLog, "answer", stopping)
        with pytest.raises(Killed):
            run(study, out)


def refused(words, run, *arguments, error=PrivmeanError, **options):
    """A run that does not go on, and asks nothing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AnswerLog, "answer", lambda *_: pytest.fail("an answer was asked for"))
        with pytest.raises(error, match=words):
            run(*arguments, **options)
