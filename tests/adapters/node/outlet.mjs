// A handler of deliveries that waits for the scenario's answers.

export class Outlet {
  #came = [];
  #waiting = [];

  constructor(hub, type, name) {
    const handle = (delivery) =>
      new Promise((resolve, reject) => {
        const come = { delivery, resolve, reject };
        const waiting = this.#waiting.shift();
        if (waiting === undefined) this.#came.push(come);
        else waiting(come);
      });
    if (type === "message") hub.registerSink(name, handle);
    else if (type === "callback") hub.registerCallback(name, handle);
    else hub.registerRouteType(type, handle);
  }

  async next(answer) {
    const { delivery, resolve, reject } = this.#came.shift() ?? (await new Promise((come) => this.#waiting.push(come)));
    if (answer === "fail") reject(new Error("the scenario has it fail"));
    else resolve(answer === "confirm");
    const { route, routeType: type, endpoint = null, trigger, attempt, eventId, body } = delivery;
    return { route, type, endpoint, trigger, attempt, eventId, body };
  }
}
