#include "infer/grammar/json_text.h"

namespace makar::grammar {
namespace {

const CodePoints kControl = {{0, 0x1F}}, kQuote = {{'"', '"'}}, kBackslash = {{'\\', '\\'}},
                 kDigit = {{'0', '9'}};

CodePoints plain_characters() {
  return CodePoints::all().without(kControl).without(kQuote).without(kBackslash);
}

ExprPtr set_of(std::initializer_list<CodePoints::Range> ranges) { return character(CodePoints(ranges)); }
ExprPtr digits(int64_t min, int64_t max) { return repeat(character(kDigit), min, max); }

ExprPtr string_rest_of(const ExprPtr& one) { return sequence({repeat(one, 0, -1), literal("\"")}); }

struct KeyTrie {
  std::map<uint32_t, KeyTrie> next;
  bool is_key = false;
};

ExprPtr string_except(const KeyTrie& at, const ExprPtr& rest) {
  std::vector<CodePoints::Range> used;
  std::vector<ExprPtr> alternatives;
  if (!at.is_key) alternatives.push_back(literal("\""));
  for (const auto& [c, child] : at.next) {
    alternatives.push_back(sequence({json_character({{c, c}}), string_except(child, rest)}));
    used.push_back({c, c});
  }
  alternatives.push_back(
      sequence({character(plain_characters().without(CodePoints::of(std::move(used)))), rest}));
  return choice(std::move(alternatives));
}

}  // namespace

ExprPtr json_character(const CodePoints& set) {
  std::vector<ExprPtr> alternatives = {character(set.without(kControl).without(kQuote).without(kBackslash))};
  const std::pair<uint32_t, const char*> escapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"},
                                                      {'\f', "\\f"}, {'\n', "\\n"},  {'\r', "\\r"},
                                                      {'\t', "\\t"}};
  CodePoints to_escape = set.without(kControl.inverse());
  for (const auto& [c, text] : escapes) {
    if (set.contains(c)) alternatives.push_back(literal(text));
    to_escape = to_escape.without({{c, c}});
  }
  for (const auto& r : to_escape.ranges())
    for (uint32_t c = r.low; c <= r.high; ++c) alternatives.push_back(literal(fmt::format("\\u{:04x}", c)));
  return choice(std::move(alternatives));
}

ExprPtr any_json_character() {
  const ExprPtr hex = set_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), d = set_of({{'D', 'D'}, {'d', 'd'}});
  const ExprPtr plain = set_of({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const ExprPtr high = set_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), low = set_of({{'C', 'F'}, {'c', 'f'}});
  const ExprPtr unicode =
      choice({sequence({plain, hex, hex, hex}), sequence({d, set_of({{'0', '7'}}), hex, hex}),
              sequence({d, high, hex, hex, literal("\\u"), d, low, hex, hex})});
  const ExprPtr letter = set_of(
      {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  return choice({character(plain_characters()),
                 sequence({literal("\\"), choice({letter, sequence({literal("u"), unicode})})})});
}

ExprPtr json_constant(const Json& value) { return literal(dump(value)); }

ExprPtr JsonText::rule(const char* name, ExprPtr (JsonText::*make)()) {
  const auto [found, added] = rule_ids_.try_emplace(name, 0);
  if (added) {
    const int id = found->second = rules_.add(name);
    ExprPtr body = (this->*make)();
    rules_.bodies[static_cast<size_t>(id)] = std::move(body);
    return rule_of(id);
  }
  return rule_of(found->second);
}

ExprPtr JsonText::blank() { return rule("blank", &JsonText::make_blank); }
ExprPtr JsonText::value() { return rule("value", &JsonText::make_value); }
ExprPtr JsonText::string() { return rule("string", &JsonText::make_string); }
ExprPtr JsonText::number() { return rule("number", &JsonText::make_number); }
ExprPtr JsonText::integer() { return rule("integer", &JsonText::make_integer); }
ExprPtr JsonText::comma() { return sequence({blank(), literal(","), blank()}); }

ExprPtr JsonText::make_blank() {
  return optional(choice({literal(" "), sequence({repeat(literal("\n"), 1, 2),
                                                  repeat(set_of({{' ', ' '}, {'\t', '\t'}}), 0, 20)})}));
}

ExprPtr JsonText::make_value() {
  return choice({string(), number(), rule("object", &JsonText::make_object),
                 rule("array", &JsonText::make_array), literal("true"), literal("false"), literal("null")});
}

ExprPtr JsonText::make_object() {
  const ExprPtr pair = sequence({string(), literal(":"), blank(), value()});
  const ExprPtr pairs = sequence({pair, repeat(sequence({comma(), pair}), 0, -1), blank()});
  return sequence({literal("{"), blank(), optional(pairs), literal("}")});
}

ExprPtr JsonText::make_array() {
  const ExprPtr items = sequence({value(), repeat(sequence({comma(), value()}), 0, -1), blank()});
  return sequence({literal("["), blank(), optional(items), literal("]")});
}

// The characters are part of the rule itself, so that the mask inside a string does not depend on the stack.
ExprPtr JsonText::make_string() {
  return sequence({literal("\""), rule("rest of string", &JsonText::make_string_rest)});
}
ExprPtr JsonText::make_string_rest() { return string_rest_of(any_json_character()); }

ExprPtr JsonText::make_integer() { return integer_between({}, {}); }

ExprPtr JsonText::make_number() {
  const ExprPtr exponent =
      sequence({set_of({{'E', 'E'}, {'e', 'e'}}), optional(set_of({{'+', '+'}, {'-', '-'}})), digits(1, 2)});
  return sequence({optional(literal("-")), integer_between(0, {}),
                   optional(sequence({literal("."), digits(1, 16)})), optional(exponent)});
}

ExprPtr JsonText::key_except(const std::vector<std::string>& keys) {
  KeyTrie trie;
  for (const std::string& key : keys) {
    constexpr size_t kMaxKeyBytes = 200;  // longer keys are unlikely to be generated by chance
    if (key.size() > kMaxKeyBytes) continue;
    KeyTrie* at = &trie;
    for (size_t i = 0; i < key.size();) {
      const uint32_t c = next_code_point(key, i);
      if (c > kMaxCodePoint) break;
      at = &at->next[c];
    }
    at->is_key = true;
  }
  return sequence({literal("\""), string_except(trie, rule("rest of string", &JsonText::make_string_rest))});
}

}  // namespace makar::grammar
