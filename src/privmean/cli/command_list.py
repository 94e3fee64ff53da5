"""The commands with the first line of each, in the order in which `privmean --help` shows them.

Written down here so that a list of commands loads none of them; a test compares the list with the
commands themselves.
"""

LINES = {
    "mean": "The mean over persons of each person's own mean, in one or several columns.",
    "regress": "A regression of persons with many records each.",
    "curve": "The mean of persons over time, in public bins.",
    "variance": "The variance of persons' own means in one column, and their standard deviation.",
    "compare": "Whether two groups differ: an effect, its interval and its p-value.",
    "quantile": "Quantiles of persons' own means in one column, and their whole distribution.",
    "plan": "Predict the error of a mean and the persons needed. Reads no data and spends nothing.",
    "demo": "A private mean and a planned study of a made table; needs no files.",
    "example": "Write a table to try commands on; nothing of yours is read.",
    "withhold": "Read events, write one JSON line a release: withhold-release.",
    "fixed-design": "Estimate a mean curve from records at public times.",
    "verify": (
        "Check a stored release without the data: bill, numbers, digest, signature, charge."
    ),
    "sign": "Sign a stored release. Its digest changes, since it now names its signer.",
    "keygen": "Make a pair of Ed25519 keys: keep the first file, publish the second.",
    "audit": (
        "Try the promise: record runs, replay them on hostile neighbours, compare and measure."
    ),
    "stream": "A private mean of events, released as they come; 'plan' compares strategies.",
    "collect": "Collect locally private reports: clients randomize, the server only aggregates.",
    "two-servers": "Experimental: means of values that neither of two servers sees.",
    "study": "Many questions about one table under one budget, from a file (study.toml).",
    "ledger": "Budgets that last: what the same persons may lose over all releases about them.",
}
