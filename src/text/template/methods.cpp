// Methods of strings, lists and dicts. Methods that modify a list or dict are rejected, as in transformers.
#include <algorithm>
#include <array>

#include "text/template/format.h"
#include "text/template/interpreter.h"
#include "text/template/text_operations.h"

namespace makar::jinja {
namespace {

constexpr std::array kStringMethods = {
    "split",        "rsplit",       "splitlines", "strip",   "lstrip",  "rstrip",     "startswith",
    "endswith",     "replace",      "upper",      "lower",   "title",   "capitalize", "swapcase",
    "find",         "rfind",        "index",      "join",    "format",  "count",      "isdigit",
    "isalpha",      "isalnum",      "isspace",    "isupper", "islower", "partition",  "rpartition",
    "removeprefix", "removesuffix", "zfill",      "ljust",   "rjust"};
constexpr std::array kListMethods = {"index",  "count",   "append", "extend", "insert", "pop",
                                     "remove", "reverse", "sort",   "clear",  "copy"};
constexpr std::array kDictMethods = {"items",  "keys",       "values", "get",     "pop",
                                     "update", "setdefault", "clear",  "popitem", "copy"};
constexpr std::array kMutatingMethods = {"append", "extend", "insert", "pop",        "remove", "reverse",
                                         "sort",   "clear",  "update", "setdefault", "popitem"};

template <class Names>
bool contains_name(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Traced& text_argument(const Arguments& a, size_t i, const char* name) {
  const Value& v = a.need(i, name);
  if (!v.is_string()) fail(fmt::format("the argument '{}' must be a string, found {}", name, type_name(v)));
  return v.traced();
}

// startswith and endswith: `v` is a string or a tuple of strings.
bool has_affix(const std::string& s, const Value& v, bool start) {
  if (v.is(Kind::kTuple))
    return std::any_of(v.items().begin(), v.items().end(),
                       [&](const Value& x) { return has_affix(s, x, start); });
  if (!v.is_string()) fail(fmt::format("startswith and endswith need a string, found {}", type_name(v)));
  return start ? s.starts_with(v.text()) : s.ends_with(v.text());
}

bool all_of_class(const std::string& s, const std::string& name) {
  const auto ascii = [&](auto test) {
    return !s.empty() &&
           std::all_of(s.begin(), s.end(), [&](char c) { return test(static_cast<unsigned char>(c)); });
  };
  if (name == "isdigit") return ascii([](unsigned char c) { return std::isdigit(c) != 0; });
  if (name == "isalpha") return ascii([](unsigned char c) { return std::isalpha(c) || c >= 0x80; });
  if (name == "isalnum") return ascii([](unsigned char c) { return std::isalnum(c) || c >= 0x80; });
  if (name == "isspace") return !s.empty() && strip_range(s, true, false).begin == s.size();
  const bool upper = name == "isupper";
  bool has_letter = false;
  for (const char c : s) {
    if (upper ? std::islower(static_cast<unsigned char>(c)) : std::isupper(static_cast<unsigned char>(c)))
      return false;
    has_letter |= std::isalpha(static_cast<unsigned char>(c)) != 0;
  }
  return has_letter;
}

Value find_text(const std::string& s, const Arguments& a, const std::string& name) {
  const std::string& target = text_argument(a, 0, "sub").text();
  const size_t at = name == "rfind" ? s.rfind(target) : s.find(target);
  if (at == std::string::npos && name == "index") fail("index: the substring was not found");
  return Value::integer(at == std::string::npos
                            ? -1
                            : static_cast<int64_t>(count_code_points(std::string_view(s).substr(0, at))));
}

Value partition(const Traced& t, const Arguments& a, bool right, Heap& heap) {
  const Traced& separator = text_argument(a, 0, "sep");
  if (separator.empty()) fail("partition needs a separator that is not empty");
  const size_t at = right ? t.text().rfind(separator.text()) : t.text().find(separator.text());
  std::vector<Value> out;
  if (at == std::string::npos) {
    out = right ? std::vector<Value>{heap.string(""), heap.string(""), heap.string(t)}
                : std::vector<Value>{heap.string(t), heap.string(""), heap.string("")};
  } else {
    out = {heap.string(t.slice(0, at)), heap.string(t.slice(at, at + separator.size())),
           heap.string(t.slice(at + separator.size(), t.size()))};
  }
  return heap.list(std::move(out), Kind::kTuple);
}

Value pad_text(const Traced& t, const Arguments& a, const std::string& name, Interpreter& in) {
  const int64_t width = integer_of(a.need(0, "width"), "the width"),
                missing = width - static_cast<int64_t>(count_code_points(t.text()));
  if (missing <= 0) return in.heap.string(t);
  in.budget.check_allocation(static_cast<size_t>(missing));
  const Traced pad(std::string(static_cast<size_t>(missing), name == "zfill" ? '0' : ' '));
  const size_t sign = name == "zfill" && !t.empty() && (t.text()[0] == '-' || t.text()[0] == '+') ? 1 : 0;
  Traced out = name == "ljust" ? t : t.slice(0, sign);
  out.append(pad);
  if (name != "ljust") out.append(t, sign, t.size());
  return in.heap.string(std::move(out));
}

Value string_method(const Value& self, const std::string& name, const Arguments& a, Interpreter& in) {
  const Traced& t = self.traced();
  const std::string& s = t.text();
  in.budget.touch(s.size());
  const auto text = [&](Traced x) { return in.heap.string(std::move(x)); };
  if (name == "split" || name == "rsplit") {
    const Value separator = a.get(0, "sep", Value::none()), max = a.get(1, "maxsplit", Value::integer(-1));
    if (!separator.is_none() && !separator.is_string()) fail("split needs a string as separator");
    return in.heap.list(split(t, separator.is_none() ? nullptr : &separator.text(),
                              integer_of(max, "maxsplit"), name == "rsplit", in));
  }
  if (name == "splitlines")
    return in.heap.list(split_lines(t, truthy(a.get(0, "keepends", Value::boolean(false))), in));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Value chars = a.get(0, "chars", Value::none());
    if (!chars.is_none() && !chars.is_string()) fail("strip needs a string of characters");
    return text(
        strip(t, name != "rstrip", name != "lstrip", chars.is_none() ? nullptr : &chars.text(), in.budget));
  }
  if (name == "startswith" || name == "endswith")
    return Value::boolean(has_affix(s, a.need(0, "prefix"), name == "startswith"));
  if (name == "replace")
    return text(replace(t, text_argument(a, 0, "old"), text_argument(a, 1, "new"),
                        integer_of(a.get(2, "count", Value::integer(-1)), "count"), in));
  if (name == "upper") return text(change_case(t, Case::kUpper, in.budget));
  if (name == "lower") return text(change_case(t, Case::kLower, in.budget));
  if (name == "title") return text(change_case(t, Case::kTitle, in.budget));
  if (name == "capitalize") return text(change_case(t, Case::kCapitalize, in.budget));
  if (name == "swapcase") return text(change_case(t, Case::kSwap, in.budget));
  if (name == "find" || name == "rfind" || name == "index") return find_text(s, a, name);
  if (name == "join") {
    const std::vector<Value> items = iterate(a.need(0, "iterable"), in.heap);
    for (const Value& v : items)
      if (!v.is_string()) fail(fmt::format("join needs strings, found {}", type_name(v)));
    return text(join(items, t, in));
  }
  if (name == "format") return format_braces(t, a, in);
  if (name == "count") {
    const std::string& target = text_argument(a, 0, "sub").text();
    if (target.empty()) return Value::integer(length(self) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = s.find(target, at)) != std::string::npos; at += target.size()) ++n;
    return Value::integer(n);
  }
  if (name == "partition" || name == "rpartition") return partition(t, a, name == "rpartition", in.heap);
  if (name == "removeprefix") {
    const std::string& p = text_argument(a, 0, "prefix").text();
    return text(s.starts_with(p) ? t.slice(p.size(), s.size()) : t);
  }
  if (name == "removesuffix") {
    const std::string& p = text_argument(a, 0, "suffix").text();
    return text(s.ends_with(p) ? t.slice(0, s.size() - p.size()) : t);
  }
  if (name == "zfill" || name == "ljust" || name == "rjust") return pad_text(t, a, name, in);
  return Value::boolean(all_of_class(s, name));
}

Value dict_method(const Value& self, const std::string& name, const Arguments& a, Interpreter& in) {
  const auto& items = self.dict().items;
  if (name == "get") {
    const Value* v = find(self, a.need(0, "key"), in.budget);
    return v ? *v : a.get(1, "default", Value::none());
  }
  if (name == "copy") return self;
  in.budget.spend(static_cast<int64_t>(items.size()));
  std::vector<Value> out;
  for (const auto& [k, v] : items) {
    if (name == "keys")
      out.push_back(k);
    else if (name == "values")
      out.push_back(v);
    else
      out.push_back(in.heap.list({k, v}, Kind::kTuple));
  }
  return in.heap.list(std::move(out));
}

Value list_method(const Value& self, const std::string& name, const Arguments& a, Interpreter& in) {
  if (name == "copy") return self;
  const Value& target = a.need(0, "value");
  int64_t n = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (!equal(self.items()[i], target, in.budget)) continue;
    if (name == "index") return Value::integer(static_cast<int64_t>(i));
    ++n;
  }
  if (name == "index") fail("index: the value is not in the list");
  return Value::integer(n);
}

Value loop_method(const Value& self, const std::string& name, const Arguments& a, Interpreter& in) {
  LoopObject& loop = self.loop();
  if (name == "cycle") {
    if (a.positional.empty()) fail("loop.cycle needs at least one value");
    return a.positional[loop.index % a.positional.size()];
  }
  for (const Value& v : a.positional)
    if (!v.is_string() && !v.is_number() && !v.is_none())
      fail("loop.changed compares strings and numbers only");
  const bool same = !loop.last_changed.empty() && loop.last_changed.size() == a.positional.size() &&
                    std::equal(a.positional.begin(), a.positional.end(), loop.last_changed.begin(),
                               [&](const Value& x, const Value& y) { return equal(x, y, in.budget); });
  loop.last_changed = a.positional;
  return Value::boolean(!same);
}

}  // namespace

bool has_method(const Value& object, const std::string& name) {
  switch (object.kind()) {
    case Kind::kString:
      return contains_name(kStringMethods, name);
    case Kind::kList:
    case Kind::kTuple:
      return contains_name(kListMethods, name);
    case Kind::kDict:
      return contains_name(kDictMethods, name);
    default:
      return false;
  }
}

Value call_method(const Value& self, const std::string& name, const Arguments& a, Interpreter& in) {
  if (self.is(Kind::kLoop)) return loop_method(self, name, a, in);
  if (!self.is_string() && contains_name(kMutatingMethods, name))
    fail(fmt::format("'{}' would change a {}; chat templates cannot change values, write {} instead", name,
                     type_name(self), self.is_dict() ? "dict(old, key=value)" : "list + [value]"));
  if (self.is_string()) return string_method(self, name, a, in);
  return self.is_dict() ? dict_method(self, name, a, in) : list_method(self, name, a, in);
}

}  // namespace makar::jinja
