// JSON schema to rules. Enforced: type, enum, const, $ref inside of the document, anyOf, oneOf (as anyOf),
// allOf of schemas that can be merged, properties in the order written, required, additionalProperties,
// items, prefixItems, minItems, maxItems, minLength, maxLength, pattern (see regex.h), format (date, time,
// date-time, uuid, email, ipv4, ipv6, hostname, uri), bounds of integers, the sign of numbers, nullable.
// Stricter than the standard, so that what is written stays valid and ends: an object with `properties` gets
// others only where additionalProperties asks for them; a schema without `type` has the type its keywords
// speak of. Everything else is listed in not_enforced.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct SchemaRules {
  RuleSet rules;
  std::vector<std::string> not_enforced;
};

// Errors: no JSON, a schema that is none, a $ref that leads nowhere, limits.
Result<SchemaRules> read_json_schema(std::string_view text, const Limits& limits);

}  // namespace makar::grammar
