// The operations of a store, from their table: as text it is a quarter of what it would be as objects.
import { table, topics, type OperationShape } from "./generated.js";

export const operations: Record<string, OperationShape> = {};

for (const line of table.split("\n")) {
  const [namespace, ...methods] = line.split(" ");
  for (const method of methods) {
    const [, name, kind, letters, subject, array] = /(\w+)(.)([A-Z]*)([\w+]*)=?(.*)/.exec(method)!;
    operations[namespace ? `${namespace}.${name}` : name!] = {
      subject: subject ? subject.split("+") : [],
      orObject: kind === "|",
      array: array!,
      list: kind === "*",
      bytes: kind === "#",
      writes: "!|#".includes(kind!),
      topics: [...letters!].map((letter) => topics[letter.charCodeAt(0) - 65]!),
    };
  }
}
