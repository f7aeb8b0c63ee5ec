// The interpreter: expressions.
#include <algorithm>

#include "base/nearest.h"
#include "text/template/interpreter.h"

namespace makar::jinja {

using Type = Expression::Type;

Value Interpreter::evaluate(const Expression& e) {
  budget.spend();
  check_stack();
  try {
    return evaluate_node(e);
  } catch (Failure& f) {
    if (f.line == 0) f.line = e.line, f.column = e.column;
    throw;
  }
}

Value Interpreter::evaluate_node(const Expression& e) {
  const auto child = [&](size_t i) { return evaluate(*e.children[i]); };
  const auto lenient = [&] {
    const Lenient allowed(*this);
    return evaluate(*e.children[0]);
  };
  switch (e.type) {
    case Type::kConstant:
      return e.value;
    case Type::kName:
      return lookup(e);
    case Type::kList:
    case Type::kTuple:
      return evaluate_list(e);
    case Type::kDict:
      return evaluate_dict(e);
    case Type::kAttribute:
      return attribute(child(0), e.name);
    case Type::kItem:
      return item(child(0), child(1));
    case Type::kSlice:
      return evaluate_slice(e);
    case Type::kCall:
      return evaluate_call(e);
    case Type::kFilter: {
      const Value input = e.name == "default" || e.name == "d" ? lenient() : child(0);
      return filter(e.name, input, arguments(e));
    }
    case Type::kTest: {
      const Value input = e.name == "defined" || e.name == "undefined" ? lenient() : child(0);
      return Value::boolean(test(e.name, input, arguments(e)));
    }
    case Type::kNot:
      return Value::boolean(!truthy(child(0)));
    case Type::kNegative:
      return negative(child(0));
    case Type::kPositive: {
      Value v = child(0);
      if (!v.is_number()) fail(fmt::format("+ needs a number, found {}", type_name(v)));
      return v;
    }
    case Type::kAnd: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case Type::kOr: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case Type::kCompare:
      return evaluate_compare(e);
    case Type::kArithmetic: {
      const Value left = child(0);
      return arithmetic(e.name, left, child(1), *this);
    }
    case Type::kConcat:
      return evaluate_concat(e);
    case Type::kIf:
      if (truthy(child(1))) return child(0);
      return e.children[2] ? child(2) : undefined("the inline if without else was false");
  }
  fail("unknown expression");
}

Value Interpreter::evaluate_list(const Expression& e) {
  std::vector<Value> items;
  items.reserve(e.children.size());
  for (const Expression* c : e.children) items.push_back(evaluate(*c));
  return heap.list(std::move(items), e.type == Type::kList ? Kind::kList : Kind::kTuple);
}

Value Interpreter::evaluate_dict(const Expression& e) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    Value key = evaluate(*e.children[i]), value = evaluate(*e.children[i + 1]);
    if (key.is(Kind::kList) || key.is_dict())
      fail(fmt::format("a value of type {} cannot be a key", type_name(key)));
    const auto same = [&](const auto& item) { return equal(item.first, key, budget); };
    const auto old = std::find_if(items.begin(), items.end(), same);
    if (old != items.end())
      old->second = std::move(value);
    else
      items.emplace_back(std::move(key), std::move(value));
  }
  return heap.dict(std::move(items));
}

Value Interpreter::evaluate_concat(const Expression& e) {
  Traced out;
  for (const Expression* c : e.children) {
    const Traced part = print(evaluate(*c), heap);
    budget.check_allocation(out.size() + part.size());
    out.append(part);
  }
  return heap.string(std::move(out));
}

Value Interpreter::undefined(std::string why) const {
  if (strict && lenient_ == 0) fail(why);
  return {Kind::kUndefined, std::make_shared<StringObject>(Traced(std::move(why)))};
}

Value Interpreter::lookup(const Expression& e) {
  for (Scope* s = scope_.get(); s; s = s->parent.get())
    if (const Value* v = s->find(e.name)) return *v;
  if (!strict || lenient_ > 0) return undefined("'" + e.name + "' is undefined");
  std::vector<std::string> known;
  for (Scope* s = scope_.get(); s; s = s->parent.get())
    for (const auto& [name, value] : s->names)
      if (!value.is(Kind::kCallable)) known.push_back(name);
  fail(fmt::format("'{}' is undefined{}", e.name, did_you_mean(e.name, known)));
}

Value Interpreter::evaluate_compare(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    const std::string& op = e.ops[i];
    bool holds;
    if (op == "==")
      holds = equal(left, right, budget);
    else if (op == "!=")
      holds = !equal(left, right, budget);
    else if (op == "in")
      holds = contains(right, left, *this);
    else if (op == "not in")
      holds = !contains(right, left, *this);
    else {
      const int order = compare(left, right, budget);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_slice(const Expression& e) {
  const Value object = evaluate(*e.children[0]);
  Value bounds[3];
  for (int i = 0; i < 3; ++i)
    if (e.children[i + 1]) bounds[i] = evaluate(*e.children[i + 1]);
  const auto bound = [&](int i) { return e.children[i + 1] && !bounds[i].is_none() ? &bounds[i] : nullptr; };
  return slice(object, bound(0), bound(1), bound(2), *this);
}

Arguments Interpreter::arguments(const Expression& e) {
  Arguments out;
  for (size_t i = 1; i < e.children.size(); ++i) out.positional.push_back(evaluate(*e.children[i]));
  if (e.star)
    for (Value& v : iterate(evaluate(*e.star), heap)) out.positional.push_back(std::move(v));
  for (const auto& [name, value] : e.keywords) out.named.emplace_back(name, evaluate(*value));
  if (e.double_star) {
    const Value mapping = evaluate(*e.double_star);
    if (!mapping.is_dict()) fail("** needs a mapping");
    for (const auto& [k, v] : mapping.dict().items)
      if (k.is_string()) out.named.emplace_back(k.text(), v);
  }
  return out;
}

Value Interpreter::evaluate_call(const Expression& e) {
  const Value function = evaluate(*e.children[0]);
  return call(function, arguments(e));
}

Value Interpreter::call(const Value& function, const Arguments& arguments) {
  if (function.is_undefined())
    fail(function.object() ? static_cast<StringObject&>(*function.object()).traced.text()
                           : "the function is undefined");
  if (!function.is(Kind::kCallable))
    fail(fmt::format("a value of type {} cannot be called", type_name(function)));
  const CallableObject& f = function.callable();
  switch (f.type) {
    case CallableObject::Type::kMethod:
      return call_method(f.self, f.name, arguments, *this);
    case CallableObject::Type::kMacro:
      return call_macro(f, arguments);
    default:
      return call_function(f.name, arguments);
  }
}

namespace {

Value loop_attribute(const Value& v, const std::string& name, Interpreter& in) {
  const LoopObject& loop = v.loop();
  const auto n = static_cast<int64_t>(loop.list.items().size()), i = static_cast<int64_t>(loop.index);
  if (name == "index") return Value::integer(i + 1);
  if (name == "index0") return Value::integer(i);
  if (name == "revindex") return Value::integer(n - i);
  if (name == "revindex0") return Value::integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 == n);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(loop.level);
  if (name == "depth0") return Value::integer(loop.level - 1);
  if (name == "previtem") return i > 0 ? loop.list.items()[i - 1] : in.undefined("there is no previous item");
  if (name == "nextitem") return i + 1 < n ? loop.list.items()[i + 1] : in.undefined("there is no next item");
  if (name == "cycle" || name == "changed") return in.heap.method(v, name);
  return in.undefined("'loop' has no attribute '" + name + "'");
}

}  // namespace

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) {
    const auto* why = static_cast<const StringObject*>(object.object().get());
    fail(fmt::format("cannot read '{}': {}", name, why ? why->traced.text() : "the object is undefined"));
  }
  if (object.is(Kind::kLoop)) return loop_attribute(object, name, *this);
  if (object.is_dict() && !has_method(object, name))
    if (const Value* v = object.dict().find(name)) return *v;
  if (object.is(Kind::kNamespace))
    if (const Value* v = object.dict().find(name)) return *v;
  if (name.starts_with("__"))
    fail(fmt::format("the attribute '{}' is not allowed: templates can access data only", name));
  if (has_method(object, name)) return heap.method(object, name);
  return undefined(fmt::format("{} has no attribute '{}'", type_name(object), name));
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_sequence() && key.is_integer()) {
    const auto n = static_cast<int64_t>(object.items().size());
    const int64_t i = key.integer() < 0 ? key.integer() + n : key.integer();
    return i >= 0 && i < n ? object.items()[i]
                           : undefined(fmt::format("the list of {} items has no item {}", n, key.integer()));
  }
  if (object.is_string() && key.is_integer()) {
    const int64_t n = length(object), i = key.integer() < 0 ? key.integer() + n : key.integer();
    if (i < 0 || i >= n)
      return undefined(fmt::format("the string of {} characters has no character {}", n, key.integer()));
    const Value from = Value::integer(i), to = Value::integer(i + 1);
    return slice(object, &from, &to, nullptr, *this);
  }
  if (object.is_dict()) {
    if (const Value* v = jinja::find(object, key, budget)) return *v;
  }
  if (key.is_string()) {
    if (object.is_dict() && !has_method(object, key.text()))
      return undefined(fmt::format("the mapping has no key '{}'", key.text().substr(0, 80)));
    return attribute(object, key.text());
  }
  if (object.is_undefined()) attribute(object, "an item");
  return undefined(fmt::format("{} has no such item", type_name(object)));
}

}  // namespace makar::jinja
