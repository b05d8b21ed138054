// Begins a task, says its id, and waits to be killed.
import { Hub } from "tidings";
import { TaskStore } from "tidings/mcp";

const [, , path] = process.argv;
if (path === undefined) throw new Error("a path is needed");
const { taskId } = await new TaskStore(new Hub(`sqlite:${path}`)).createTask({}, 1, {}, "s");
console.log(taskId);
setInterval(() => {}, 1_000);
