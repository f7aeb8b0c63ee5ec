// JSON schema to rules. Enforced: type, enum, const, $ref inside the document, anyOf, oneOf (as anyOf),
// allOf of schemas that can be merged, properties in the order written, required, additionalProperties,
// items, prefixItems, minItems, maxItems, minLength, maxLength, pattern (see regex.h), format (date, time,
// date-time, uuid, email, ipv4, ipv6, hostname, uri), bounds of integers and numbers, nullable.
// Stricter than the standard, so that the output stays valid and ends: an object with `properties` gets
// others only if additionalProperties is set; a schema without `type` has the type that its keywords imply.
// All other keywords are listed in not_enforced.
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

// Fails on invalid JSON, an invalid schema, an unresolvable $ref, or a limit.
Result<SchemaRules> read_json_schema(std::string_view text, const Limits& limits, WorkBudget& work);

}  // namespace makar::grammar
