// What is shown, by its name in the address. The order is that of the keys 1 to 9.

import { files } from "./files.js";
import { history } from "./history.js";
import { layout } from "./layout.js";
import { live } from "./live.js";
import { log } from "./log.js";
import { overview } from "./overview.js";
import { changes, rows } from "./rows.js";
import { schema } from "./schema.js";

export const views = { overview, history, log, files, layout, schema, rows, changes, live };
