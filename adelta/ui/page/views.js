// What is shown, by its name in the address. The order is that of the keys 1 to 9.

import { history } from "./history.js";
import { live } from "./live.js";
import { log } from "./log.js";
import { overview } from "./overview.js";

export const views = { overview, history, log, live };
