/** Everything this package raises on purpose. */
export class PrivmeanError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** A public argument that cannot be used. Nothing was read or spent. */
export class ArgumentError extends PrivmeanError {
  constructor(argument, problem, remedy) {
    super(`${argument} ${problem}; ${remedy}`);
    this.argument = argument;
  }
}

/** The ledger's limit would be passed. Nothing was spent. */
export class BudgetExceeded extends PrivmeanError {
  constructor(asked, left) {
    super(`a report of epsilon=${asked} is asked and epsilon=${left} is left`);
    this.asked = asked;
    this.left = left;
  }
}

/** A report that cannot be taken. `reason` is the word under which a server counts it. */
export class ReportError extends PrivmeanError {
  constructor(reason) {
    super(`the report is refused: ${reason}`);
    this.reason = reason;
  }
}

/** A server that does not take what was sent. `status` is the HTTP status, 0 for no answer. */
export class ServerError extends PrivmeanError {
  constructor(message, status = 0, kept = true) {
    super(message);
    this.status = status;
    this.kept = kept;
  }
}
