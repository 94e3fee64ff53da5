"""The commands with the first line of each, in the order in which `privmean --help` shows them.

Written down here so that a list of commands loads none of them; a test compares the list with the
commands themselves.
"""

LINES = {
    "mean": "Estimate means of people in one or several columns, also by group.",
    "regress": "Fit a regression: pooled, within people, or person-specific.",
    "curve": "Estimate a mean over time, in public bins.",
    "variance": "Estimate the variance of person means in one column.",
    "compare": "Compare two groups: effect, confidence interval and p-value.",
    "quantile": "Estimate quantiles of person means in one column.",
    "plan": "Predict errors, or the required n or epsilon, without any data.",
    "demo": "Show a private mean and a planned study of a made table.",
    "example": "Write an example table.",
    "withhold": "Release means of a stream by the withhold-release method.",
    "fixed-design": "Estimate a mean curve from records at public times.",
    "verify": ("Verify a stored release without the data."),
    "sign": "Sign a stored release; its digest changes.",
    "keygen": "Make a private and a public key for signatures (Ed25519).",
    "audit": ("Test the privacy guarantee on adversarial neighboring tables."),
    "stream": "Release running means of a stream of records.",
    "collect": "Collect and aggregate reports of the local model.",
    "two-servers": "Compute means with two servers (experimental).",
    "study": "Plan and run a study of many questions from study.toml.",
    "ledger": "Create, show and check ledgers of privacy budgets.",
}
