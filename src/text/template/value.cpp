#include "text/template/value.h"

#include <algorithm>
#include <cmath>

namespace makar::jinja {

const Traced& Value::traced() const {
  check(kind_ == Kind::kString, "traced() called on a value that is not a string");
  return static_cast<const StringObject&>(*object_).traced;
}
const std::vector<Value>& Value::items() const {
  check(is_sequence(), "items() called on a value that is not a list");
  return static_cast<const ListObject&>(*object_).items;
}
DictObject& Value::dict() const {
  check(kind_ == Kind::kDict || kind_ == Kind::kNamespace, "dict() called on a value that is not a dict");
  return static_cast<DictObject&>(*object_);
}
LoopObject& Value::loop() const {
  check(kind_ == Kind::kLoop, "loop() called on a value that is not a loop");
  return static_cast<LoopObject&>(*object_);
}
CallableObject& Value::callable() const {
  check(kind_ == Kind::kCallable, "callable() called on a value that is not callable");
  return static_cast<CallableObject&>(*object_);
}

const Value* DictObject::find(std::string_view key) const {
  for (const auto& [k, v] : items)
    if (k.is_string() && k.text() == key) return &v;
  return nullptr;
}

namespace {

int depth_of(const Value& v) { return v.object() ? v.object()->depth : 0; }

void set_depth(Object& object, int child_depth) {
  object.depth = child_depth + 1;
  if (object.depth > kMaxContainerDepth)
    fail_limit(fmt::format("values nest deeper than {} levels", kMaxContainerDepth));
}

// Known roles count as template text; any other role is content.
bool is_known_role(const std::string& role) {
  for (const char* known :
       {"system", "user", "assistant", "tool", "developer", "ipython", "function", "model", "tool_response",
        "observation", "environment", "documents", "context", "root"})
    if (role == known) return true;
  return false;
}

}  // namespace

Value Heap::string(Traced text) {
  auto object = std::make_shared<StringObject>(std::move(text));
  object->charge(budget, sizeof(StringObject) + object->traced.footprint());
  return {Kind::kString, std::move(object)};
}

Value Heap::list(std::vector<Value> items, Kind kind) {
  auto object = std::make_shared<ListObject>();
  int child_depth = 0;
  for (const Value& v : items) child_depth = std::max(child_depth, depth_of(v));
  set_depth(*object, child_depth);
  object->charge(budget, sizeof(ListObject) + items.capacity() * sizeof(Value));
  object->items = std::move(items);
  return {kind, std::move(object)};
}

Value Heap::dict(std::vector<std::pair<Value, Value>> items, Origin origin) {
  auto object = std::make_shared<DictObject>();
  int child_depth = 0;
  for (const auto& [k, v] : items) child_depth = std::max({child_depth, depth_of(k), depth_of(v)});
  set_depth(*object, child_depth);
  object->charge(budget, sizeof(DictObject) + items.capacity() * 2 * sizeof(Value));
  object->items = std::move(items);
  object->origin = origin;
  return Value(Kind::kDict, std::move(object)).with_origin(origin);
}

Value Heap::method(Value self, std::string name) {
  auto object = std::make_shared<CallableObject>();
  set_depth(*object, depth_of(self));
  object->charge(budget, sizeof(CallableObject));
  object->type = CallableObject::Type::kMethod;
  object->name = std::move(name);
  object->self = std::move(self);
  return {Kind::kCallable, std::move(object)};
}

Value Heap::content(const Json& json, Origin origin) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none().with_origin(origin);
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>()).with_origin(origin);
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>()).with_origin(origin);
    case Json::value_t::number_unsigned: {
      const auto u = json.get<uint64_t>();
      if (u > INT64_MAX) return Value::real(static_cast<double>(u)).with_origin(origin);
      return Value::integer(static_cast<int64_t>(u)).with_origin(origin);
    }
    case Json::value_t::number_float:
      return Value::real(json.get<double>()).with_origin(origin);
    case Json::value_t::string:
      return string(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& j : json) items.push_back(content(j, origin));
      return list(std::move(items)).with_origin(origin);
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [k, j] : json.items()) items.emplace_back(string(k, origin), content(j, origin));
      return dict(std::move(items), origin);
    }
    default:
      fail("data has a type that JSON does not have");
  }
}

Value Heap::messages(const Json& json) {
  if (!json.is_array()) return content(json);
  std::vector<Value> out;
  out.reserve(json.size());
  for (const Json& message : json) {
    const bool reply = message.is_object() && message.value("role", Json()) == Json("assistant");
    out.push_back(content(message, reply ? kFromContent | kFromReply : kFromContent));
    if (!out.back().is_dict()) continue;
    for (auto& [key, value] : out.back().dict().items)
      if (key.text() == "role" && value.is_string() && is_known_role(value.text()))
        value = string(value.text());
  }
  return list(std::move(out)).with_origin(kFromContent);
}

const char* type_name(const Value& v) {
  static const char* const kNames[] = {"undefined", "none",  "boolean", "integer",   "float", "string",
                                       "list",      "tuple", "mapping", "namespace", "loop",  "function"};
  return kNames[static_cast<int>(v.kind())];
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.integer() != 0;
    case Kind::kFloat:
      return v.real() != 0;
    case Kind::kString:
      return !v.traced().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !v.items().empty();
    case Kind::kDict:
      return !v.dict().items.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      budget.touch(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        [&](const Value& x, const Value& y) { return equal(x, y, budget); });
    case Kind::kDict: {
      if (a.dict().items.size() != b.dict().items.size()) return false;
      for (const auto& [k, v] : a.dict().items) {
        const Value* other = find(b, k, budget);
        if (!other || !equal(v, *other, budget)) return false;
      }
      return true;
    }
    default:
      return a.object() == b.object();
  }
}

int compare(const Value& a, const Value& b, Budget& budget) {
  budget.spend();
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    return a.real() < b.real() ? -1 : a.real() > b.real();
  }
  if (a.is_string() && b.is_string()) {
    budget.touch(std::min(a.text().size(), b.text().size()));
    const int order = a.text().compare(b.text());  // UTF-8 sorts in code point order
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i], budget)) return compare(x[i], y[i], budget);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  fail(fmt::format("{} and {} cannot be ordered", type_name(a), type_name(b)));
}

int64_t length(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(count_code_points(v.text()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(v.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(v.dict().items.size());
    case Kind::kLoop:
      return static_cast<int64_t>(v.loop().list.items().size());
    default:
      fail(fmt::format("a value of type {} has no length", type_name(v)));
  }
}

std::vector<Value> iterate(const Value& v, Heap& heap) {
  std::vector<Value> out;
  switch (v.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kList:
    case Kind::kTuple:
      heap.budget.spend(static_cast<int64_t>(v.items().size() >> 3));
      heap.budget.check_allocation(v.items().size() * sizeof(Value));
      return v.items();
    case Kind::kDict:
      heap.budget.check_allocation(v.dict().items.size() * sizeof(Value));
      for (const auto& item : v.dict().items) out.push_back(item.first);
      return out;
    case Kind::kString: {
      const Traced& t = v.traced();
      heap.budget.spend(static_cast<int64_t>(t.size()));
      for (size_t i = 0; i < t.size();) {
        const size_t n = utf8_size(t.text()[i]);
        out.push_back(heap.string(t.slice(i, i + n)));
        i += n;
      }
      return out;
    }
    default:
      fail(fmt::format("a value of type {} cannot be iterated", type_name(v)));
  }
}

const Value* find(const Value& dict, const Value& key, Budget& budget) {
  const auto& items = dict.dict().items;
  budget.spend(static_cast<int64_t>(items.size() >> 4));
  if (key.is_string()) return dict.dict().find(key.text());
  for (const auto& [k, v] : items)
    if (equal(k, key, budget)) return &v;
  return nullptr;
}

}  // namespace makar::jinja
