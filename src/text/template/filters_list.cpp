// Filters on lists and mappings.
#include <algorithm>
#include <optional>

#include "text/template/filters.h"
#include "text/template/text_operations.h"

namespace makar::jinja {
namespace {

// A string in lower case for comparison, unless `case_sensitive`; other values unchanged.
Value fold_case(const Value& v, bool case_sensitive, Interpreter& in) {
  return v.is_string() && !case_sensitive ? in.heap.string(change_case(v.traced(), Case::kLower, in.budget))
                                          : v;
}

std::vector<Value> sort_by_keys(Interpreter& in, std::vector<Value> items, const std::vector<Value>& keys,
                                bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? compare(keys[b], keys[a], in.budget) < 0 : compare(keys[a], keys[b], in.budget) < 0;
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(std::move(items[i]));
  return out;
}

Value length_filter(Interpreter&, const Value& v, const Arguments&) { return Value::integer(length(v)); }

Value join_filter(Interpreter& in, const Value& v, const Arguments& a) {
  std::vector<Value> items = iterate(v, in.heap);
  if (const Value* attribute = a.get(1, "attribute"); attribute && !attribute->is_none())
    for (Value& item : items) item = path(in, item, *attribute);
  const Value separator = a.get(0, "d", in.heap.string(""));
  return in.heap.string(join(items, soft_text(separator, in), in));
}

Value default_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const bool falsy = truthy(a.get(1, "boolean", Value::boolean(false)));
  if (v.is_undefined() || (falsy && !truthy(v))) return a.get(0, "default_value", in.heap.string(""));
  return v;
}

Value first_filter(Interpreter& in, const Value& v, const Arguments&) {
  if (v.is_sequence() && !v.items().empty()) return v.items().front();
  const auto items = iterate(v, in.heap);
  return items.empty() ? in.undefined("there is no first item: the sequence is empty") : items.front();
}

Value last_filter(Interpreter& in, const Value& v, const Arguments&) {
  if (v.is_sequence() && !v.items().empty()) return v.items().back();
  const auto items = iterate(v, in.heap);
  return items.empty() ? in.undefined("there is no last item: the sequence is empty") : items.back();
}

Value list_filter(Interpreter& in, const Value& v, const Arguments&) {
  return in.heap.list(iterate(v, in.heap)).with_origin(v.origin());
}

Value items_filter(Interpreter& in, const Value& v, const Arguments& a) {
  if (v.is_undefined()) return in.heap.list({});
  if (!v.is_dict()) fail(fmt::format("items needs a mapping, found {}", type_name(v)));
  return call_method(v, "items", a, in);
}

Value dictsort_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const bool case_sensitive = truthy(a.get(0, "case_sensitive", Value::boolean(false))),
             reverse = truthy(a.get(2, "reverse", Value::boolean(false)));
  const Value by = a.get(1, "by", in.heap.string("key"));
  const size_t column = by.is_string() && by.text() == "value" ? 1 : 0;
  std::vector<Value> items = items_filter(in, v, {}).items(), keys;
  for (const Value& item : items) keys.push_back(fold_case(item.items()[column], case_sensitive, in));
  return in.heap.list(sort_by_keys(in, std::move(items), keys, reverse));
}

Value sort_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const bool reverse = truthy(a.get(0, "reverse", Value::boolean(false))),
             case_sensitive = truthy(a.get(1, "case_sensitive", Value::boolean(false)));
  const Value* attribute = a.get(2, "attribute");
  std::vector<Value> items = iterate(v, in.heap), keys;
  for (const Value& item : items)
    keys.push_back(fold_case(attribute && !attribute->is_none() ? path(in, item, *attribute) : item,
                             case_sensitive, in));
  return in.heap.list(sort_by_keys(in, std::move(items), keys, reverse));
}

Value unique_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const bool case_sensitive = truthy(a.get(0, "case_sensitive", Value::boolean(false)));
  const Value* attribute = a.get(1, "attribute");
  std::vector<Value> out, seen;
  for (const Value& item : iterate(v, in.heap)) {
    Value key =
        fold_case(attribute && !attribute->is_none() ? path(in, item, *attribute) : item, case_sensitive, in);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key, in.budget); }))
      continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return in.heap.list(std::move(out));
}

Value reverse_filter(Interpreter& in, const Value& v, const Arguments&) {
  const Value back = Value::integer(-1);
  if (v.is_string()) return slice(v, nullptr, nullptr, &back, in);
  std::vector<Value> items = iterate(v, in.heap);
  std::reverse(items.begin(), items.end());
  return in.heap.list(std::move(items));
}

template <int sign>
Value extreme_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const bool case_sensitive = truthy(a.get(0, "case_sensitive", Value::boolean(false)));
  const Value* attribute = a.get(1, "attribute");
  const std::vector<Value> items = iterate(v, in.heap);
  if (items.empty()) return in.undefined("there is no such item: the sequence is empty");
  const auto key = [&](const Value& x) {
    return fold_case(attribute && !attribute->is_none() ? path(in, x, *attribute) : x, case_sensitive, in);
  };
  size_t best = 0;
  Value best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value k = key(items[i]);
    if (sign * compare(k, best_key, in.budget) > 0) best = i, best_key = std::move(k);
  }
  return items[best];
}

Value sum_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value* attribute = a.get(0, "attribute");
  Value total = a.get(1, "start", Value::integer(0));
  for (const Value& item : iterate(v, in.heap))
    total =
        arithmetic("+", total, attribute && !attribute->is_none() ? path(in, item, *attribute) : item, in);
  return total;
}

Value batch_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const int64_t size = integer_of(a.need(0, "linecount"), "linecount");
  if (size <= 0) fail("batch needs a size above zero");
  std::vector<Value> out, row;
  const auto flush = [&] { out.push_back(in.heap.list(std::exchange(row, {}))); };
  for (const Value& item : iterate(v, in.heap)) {
    if (static_cast<int64_t>(row.size()) == size) flush();
    row.push_back(item);
  }
  if (const Value* fill = a.get(1, "fill_with"); fill && !fill->is_none() && !row.empty()) {
    if (size > 10'000) fail_limit("batch: the size exceeds 10000");
    while (static_cast<int64_t>(row.size()) < size) row.push_back(*fill);
  }
  if (!row.empty()) flush();
  return in.heap.list(std::move(out));
}

Value groupby_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value& attribute = a.need(0, "attribute");
  std::vector<Value> items = iterate(v, in.heap), keys;
  const auto key = [&](const Value& item) {
    std::optional<Interpreter::Lenient> lenient;
    if (a.get(1, "default")) lenient.emplace(in);
    Value k = path(in, item, attribute);
    return k.is_undefined() ? a.get(1, "default", k) : k;
  };
  for (const Value& item : items) keys.push_back(fold_case(key(item), false, in));
  items = sort_by_keys(in, std::move(items), keys, false);
  std::vector<Value> out;
  for (size_t i = 0; i < items.size();) {
    const Value name = key(items[i]), folded_name = fold_case(name, false, in);
    std::vector<Value> group;
    while (i < items.size() && equal(fold_case(key(items[i]), false, in), folded_name, in.budget))
      group.push_back(items[i++]);
    out.push_back(in.heap.list({name, in.heap.list(std::move(group))}, Kind::kTuple));
  }
  return in.heap.list(std::move(out));
}

Value attr_filter(Interpreter& in, const Value& v, const Arguments& a) {
  const Value& name = a.need(0, "name");
  if (!name.is_string()) fail("attr needs the name of an attribute");
  return in.attribute(v, name.text());
}

}  // namespace

const std::vector<FilterEntry>& list_filters() {
  static const std::vector<FilterEntry> table = {
      {"length", length_filter},     {"count", length_filter},    {"join", join_filter},
      {"default", default_filter},   {"d", default_filter},       {"first", first_filter},
      {"last", last_filter},         {"list", list_filter},       {"items", items_filter},
      {"dictsort", dictsort_filter}, {"sort", sort_filter},       {"unique", unique_filter},
      {"reverse", reverse_filter},   {"min", extreme_filter<-1>}, {"max", extreme_filter<1>},
      {"sum", sum_filter},           {"batch", batch_filter},     {"groupby", groupby_filter},
      {"attr", attr_filter},
  };
  return table;
}

}  // namespace makar::jinja
