// The functions a template may call, and how arguments are read.
#include <algorithm>

#include "text/template/interpreter.h"

namespace makar::jinja {
namespace {

constexpr int64_t kMaxRangeItems = 100'000;

}  // namespace

Value Interpreter::call_function(const std::string& name, const Arguments& a) {
  if (name == "raise_exception") {
    const Traced why = print(a.need(0, "message"), heap);
    fail("the template raised an error: " + why.text().substr(0, 1000));
  }
  if (name == "strftime_now") {
    const Value& format = a.need(0, "format");
    if (!format.is_string()) fail("strftime_now needs a format string");
    return heap.string(format_time(format.text(), now_));
  }
  if (name == "range") {
    int64_t v[3] = {0, 0, 1};
    if (a.positional.empty() || a.positional.size() > 3) fail("range takes one to three numbers");
    for (size_t i = 0; i < a.positional.size(); ++i) {
      if (!a.positional[i].is_integer()) fail("range takes integers");
      v[i] = a.positional[i].integer();
    }
    if (a.positional.size() == 1) v[1] = std::exchange(v[0], 0);
    if (v[2] == 0) fail("range needs a step other than zero");
    const __int128 span = static_cast<__int128>(v[1]) - v[0], step = v[2];
    const __int128 count = step > 0 ? (span + step - 1) / step : (-span - step - 1) / -step;
    if (count > kMaxRangeItems) fail_limit(fmt::format("range has more than {} items", kMaxRangeItems));
    std::vector<Value> items;
    if (count > 0) budget.check_allocation(static_cast<size_t>(count) * sizeof(Value));
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
      items.push_back(Value::integer(static_cast<int64_t>(v[0] + i * step)));
    budget.spend(static_cast<int64_t>(items.size() >> 2));
    return heap.list(std::move(items));
  }
  // dict and namespace: items from a mapping or pairs, then keyword arguments.
  std::vector<std::pair<Value, Value>> items;
  if (!a.positional.empty() && a.positional[0].is_dict()) {
    items = a.positional[0].dict().items;
  } else if (!a.positional.empty()) {
    for (const Value& pair : iterate(a.positional[0], heap)) {
      const auto parts = iterate(pair, heap);
      if (parts.size() != 2) fail(name + " needs a mapping or pairs");
      items.emplace_back(parts[0], parts[1]);
    }
  }
  for (const auto& keyword : a.named) {
    const auto same = [&](const auto& item) {
      return item.first.is_string() && item.first.text() == keyword.first;
    };
    const auto old = std::find_if(items.begin(), items.end(), same);
    if (old != items.end())
      old->second = keyword.second;
    else
      items.emplace_back(heap.string(keyword.first), keyword.second);
  }
  if (name == "dict") return heap.dict(std::move(items));
  auto object = std::make_shared<DictObject>();
  object->charge(budget, sizeof(DictObject) + 64 + items.size() * 2 * sizeof(Value));
  object->items = std::move(items);
  namespaces_.push_back(object);
  return {Kind::kNamespace, std::move(object)};
}

const Value* Arguments::get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [n, v] : named)
    if (n == name) return &v;
  return nullptr;
}

const Value& Arguments::need(size_t index, std::string_view name) const {
  const Value* v = get(index, name);
  if (!v) fail(fmt::format("the argument '{}' is missing", name));
  return *v;
}

std::string format_time(const std::string& format, std::time_t now) {
  constexpr size_t kMaxFormatBytes = 256;
  if (format.size() > kMaxFormatBytes)
    fail_limit(fmt::format("the format of strftime_now exceeds {} bytes", kMaxFormatBytes));
  std::tm parts{};
  localtime_r(&now, &parts);
  char buffer[4096];
  return {buffer, std::strftime(buffer, sizeof buffer, format.c_str(), &parts)};
}

}  // namespace makar::jinja
