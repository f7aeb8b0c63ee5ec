// map, select, reject, selectattr, rejectattr; and the lookup of filters by name.
#include <optional>

#include "base/nearest.h"
#include "text/template/filters.h"

namespace makar::jinja {
namespace {

const std::string& name_of(const Value& v, const char* what) {
  if (!v.is_string()) fail(fmt::format("{} must be named by a string, found {}", what, type_name(v)));
  return v.text();
}

Arguments without_first(const Arguments& a, size_t count) {
  Arguments rest = a;
  rest.positional.erase(
      rest.positional.begin(),
      rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, rest.positional.size())));
  return rest;
}

Value map_filter(Interpreter& in, const Value& v, const Arguments& a) {
  std::vector<Value> items = iterate(v, in.heap);
  const Value* attribute = a.positional.empty() ? a.get(SIZE_MAX, "attribute") : nullptr;
  if (attribute) {
    const Value* otherwise = a.get(SIZE_MAX, "default");
    for (Value& item : items) {
      std::optional<Interpreter::Lenient> lenient;
      if (otherwise) lenient.emplace(in);
      item = path(in, item, *attribute);
      if (otherwise && item.is_undefined()) item = *otherwise;
    }
  } else {
    const std::string name = name_of(a.need(0, "filter"), "the filter of map");
    const Arguments rest = without_first(a, 1);
    for (Value& item : items) item = in.filter(name, item, rest);
  }
  return in.heap.list(std::move(items));
}

template <bool keep, bool attribute>
Value select_filter(Interpreter& in, const Value& v, const Arguments& a) {
  constexpr size_t kTest = attribute ? 1 : 0;
  const Value key = attribute ? a.need(0, "attribute") : Value();
  const bool has_test = a.positional.size() > kTest;
  const std::string name = has_test ? name_of(a.positional[kTest], "the test of select") : "";
  const Arguments rest = without_first(a, kTest + 1);
  std::vector<Value> out;
  for (const Value& item : iterate(v, in.heap)) {
    const Value subject = attribute ? path(in, item, key) : item;
    if ((has_test ? in.test(name, subject, rest) : truthy(subject)) == keep) out.push_back(item);
  }
  return in.heap.list(std::move(out));
}

}  // namespace

Value path(Interpreter& in, Value v, const Value& name) {
  if (name.is_integer()) return in.item(v, name);
  const std::string& s = name_of(name, "an attribute");
  for (size_t at = 0; at <= s.size();) {
    const size_t dot = std::min(s.find('.', at), s.size());
    const std::string part = s.substr(at, dot - at);
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    v = number ? in.item(v, Value::integer(std::stoll(part))) : in.item(v, in.heap.string(part));
    at = dot + 1;
  }
  return v;
}

const std::vector<FilterEntry>& select_filters() {
  static const std::vector<FilterEntry> table = {
      {"map", map_filter},
      {"select", select_filter<true, false>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<false, true>},
  };
  return table;
}

Value Interpreter::filter(const std::string& name, const Value& input, const Arguments& arguments) {
  budget.spend();
  std::vector<std::string> known;
  for (const auto* table : {&text_filters(), &list_filters(), &select_filters()}) {
    for (const FilterEntry& entry : *table)
      if (name == entry.name) return entry.apply(*this, input, arguments);
  }
  for (const auto* table : {&text_filters(), &list_filters(), &select_filters()})
    for (const FilterEntry& entry : *table) known.emplace_back(entry.name);
  fail(fmt::format("unknown filter '{}'{}", name.substr(0, 80), did_you_mean(name.substr(0, 80), known)));
}

}  // namespace makar::jinja
