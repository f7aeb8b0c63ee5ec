// Jinja's tests: `value is name(argument)`.
#include <algorithm>

#include "base/nearest.h"
#include "text/template/interpreter.h"
#include "text/template/text_operations.h"

namespace makar::jinja {
namespace {

using Test = bool (*)(Interpreter& in, const Value& v, const Arguments& a);
struct Entry {
  const char* name;
  Test holds;
};

template <Kind... kinds>
bool is_kind(Interpreter&, const Value& v, const Arguments&) {
  return ((v.kind() == kinds) || ...);
}

int64_t modulo(const Value& v, int64_t divisor) {
  const int64_t n = integer_of(v, "the value");
  if (divisor == 0) fail("division by zero");
  return divisor == -1 ? 0 : n % divisor;
}

bool is_case(Interpreter& in, const Value& v, Case to) {
  // Python's islower and isupper: at least one letter, and none of the other case.
  const Traced t = soft_text(v, in);
  const Case other = to == Case::kLower ? Case::kUpper : Case::kLower;
  return change_case(t, to, in.budget).text() == t.text() &&
         change_case(t, other, in.budget).text() != t.text();
}

bool equals(Interpreter& in, const Value& v, const Arguments& a) {
  return equal(v, a.need(0, "other"), in.budget);
}
bool differs(Interpreter& in, const Value& v, const Arguments& a) { return !equals(in, v, a); }
bool less(Interpreter& in, const Value& v, const Arguments& a) {
  return compare(v, a.need(0, "other"), in.budget) < 0;
}
bool less_equal(Interpreter& in, const Value& v, const Arguments& a) {
  return compare(v, a.need(0, "other"), in.budget) <= 0;
}
bool greater(Interpreter& in, const Value& v, const Arguments& a) {
  return compare(v, a.need(0, "other"), in.budget) > 0;
}
bool greater_equal(Interpreter& in, const Value& v, const Arguments& a) {
  return compare(v, a.need(0, "other"), in.budget) >= 0;
}

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {"defined", [](Interpreter&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", is_kind<Kind::kUndefined>},
      {"none", is_kind<Kind::kNone>},
      {"string", is_kind<Kind::kString>},
      {"number", is_kind<Kind::kInt, Kind::kFloat, Kind::kBool>},
      {"integer", is_kind<Kind::kInt>},
      {"float", is_kind<Kind::kFloat>},
      {"boolean", is_kind<Kind::kBool>},
      {"mapping", is_kind<Kind::kDict>},
      {"iterable",
       is_kind<Kind::kList, Kind::kTuple, Kind::kDict, Kind::kString, Kind::kUndefined, Kind::kLoop>},
      {"sequence", is_kind<Kind::kList, Kind::kTuple, Kind::kDict, Kind::kString, Kind::kUndefined>},
      {"callable", is_kind<Kind::kCallable>},
      {"true",
       [](Interpreter&, const Value& v, const Arguments&) { return v.is(Kind::kBool) && v.integer() == 1; }},
      {"false",
       [](Interpreter&, const Value& v, const Arguments&) { return v.is(Kind::kBool) && v.integer() == 0; }},
      {"equalto", equals},
      {"eq", equals},
      {"==", equals},
      {"ne", differs},
      {"!=", differs},
      {"lt", less},
      {"<", less},
      {"lessthan", less},
      {"le", less_equal},
      {"<=", less_equal},
      {"gt", greater},
      {">", greater},
      {"greaterthan", greater},
      {"ge", greater_equal},
      {">=", greater_equal},
      {"sameas",
       [](Interpreter& in, const Value& v, const Arguments& a) {
         const Value& other = a.need(0, "other");
         return v.kind() == other.kind() &&
                (v.object() ? v.object() == other.object() : equal(v, other, in.budget));
       }},
      {"in",
       [](Interpreter& in, const Value& v, const Arguments& a) { return contains(a.need(0, "seq"), v, in); }},
      {"divisibleby", [](Interpreter&, const Value& v,
                         const Arguments& a) { return modulo(v, integer_of(a.need(0, "num"), "num")) == 0; }},
      {"even", [](Interpreter&, const Value& v, const Arguments&) { return modulo(v, 2) == 0; }},
      {"odd", [](Interpreter&, const Value& v, const Arguments&) { return modulo(v, 2) != 0; }},
      {"lower",
       [](Interpreter& in, const Value& v, const Arguments&) { return is_case(in, v, Case::kLower); }},
      {"upper",
       [](Interpreter& in, const Value& v, const Arguments&) { return is_case(in, v, Case::kUpper); }},
      {"escaped", [](Interpreter&, const Value&, const Arguments&) { return false; }},
  };
  return entries;
}

}  // namespace

bool Interpreter::test(const std::string& name, const Value& input, const Arguments& arguments) {
  budget.spend();
  for (const Entry& entry : table())
    if (name == entry.name) return entry.holds(*this, input, arguments);
  std::vector<std::string> known;
  for (const Entry& entry : table()) known.emplace_back(entry.name);
  fail(fmt::format("unknown test '{}'{}", name.substr(0, 80), did_you_mean(name.substr(0, 80), known)));
}

}  // namespace makar::jinja
