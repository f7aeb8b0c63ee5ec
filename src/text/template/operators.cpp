// Python's operators on values, with 64-bit integers (overflow is an error).
#include <cmath>

#include "text/template/format.h"
#include "text/template/interpreter.h"

namespace makar::jinja {
namespace {

[[noreturn]] void fail_types(const std::string& op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined() && v->object())
      fail(fmt::format("'{}' cannot be used: {}", op,
                       static_cast<const StringObject&>(*v->object()).traced.text()));
  fail(fmt::format(
      "'{}' cannot combine {} and {}{}", op, type_name(a), type_name(b),
      op == "+" && (a.is_string() || b.is_string()) ? "; write ~ to join any values as text" : ""));
}

Value integer_arithmetic(const std::string& op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  if (op == "+")
    overflow = __builtin_add_overflow(a, b, &r);
  else if (op == "-")
    overflow = __builtin_sub_overflow(a, b, &r);
  else if (op == "*")
    overflow = __builtin_mul_overflow(a, b, &r);
  else if (op == "**") {
    if (b < 0) return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    r = 1;
    for (int64_t base = a; b > 0 && !overflow; b >>= 1) {
      if (b & 1) overflow = __builtin_mul_overflow(r, base, &r);
      if (b > 1) overflow = __builtin_mul_overflow(base, base, &base) || overflow;
    }
  } else {
    if (b == 0) fail("division by zero");
    if (op == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) {
      if (op == "//") overflow = __builtin_sub_overflow(int64_t{0}, a, &r);
    } else {
      const int64_t quotient = a / b, rest = a % b;
      const bool round_down = rest != 0 && (rest < 0) != (b < 0);
      r = op == "//" ? quotient - round_down : rest + (round_down ? b : 0);
    }
  }
  if (overflow) fail("integer overflow (64 bits)");
  return Value::integer(r);
}

Value real_arithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") return Value::real(std::pow(a, b));
  if (b == 0) fail("division by zero");
  if (op == "/") return Value::real(a / b);
  if (op == "//") return Value::real(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value::real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value repeat(const Value& v, int64_t times, Interpreter& in) {
  constexpr size_t kMaxRepeatBytes = size_t{1} << 40;  // so that n * unit does not overflow
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t unit = v.is_string() ? v.traced().size() : v.items().size() * sizeof(Value);
  if (unit != 0 && n > kMaxRepeatBytes / unit) fail_limit("a repetition is too long");
  in.budget.check_allocation(n * unit);
  in.budget.touch(n * unit);
  if (v.is_string()) {
    Traced out;
    for (size_t i = 0; i < n && unit; ++i) out.append(v.traced());
    return in.heap.string(std::move(out));
  }
  std::vector<Value> items;
  for (size_t i = 0; i < n && unit; ++i) items.insert(items.end(), v.items().begin(), v.items().end());
  return in.heap.list(std::move(items), v.kind());
}

}  // namespace

Value arithmetic(const std::string& op, const Value& a, const Value& b, Interpreter& in) {
  if (a.is_number() && b.is_number()) {
    const Value r = a.is_integer() && b.is_integer() ? integer_arithmetic(op, a.integer(), b.integer())
                                                     : real_arithmetic(op, a.real(), b.real());
    return r.with_origin(a.origin() | b.origin());
  }
  if (op == "+" && a.is_string() && b.is_string()) {
    const size_t size = a.traced().size() + b.traced().size();
    in.budget.check_allocation(size);
    in.budget.touch(size);
    Traced out = a.traced();
    out.append(b.traced());
    return in.heap.string(std::move(out));
  }
  if (op == "+" && a.is_sequence() && a.kind() == b.kind()) {
    in.budget.check_allocation((a.items().size() + b.items().size()) * sizeof(Value));
    in.budget.touch((a.items().size() + b.items().size()) * sizeof(Value));
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return in.heap.list(std::move(items), a.kind()).with_origin(a.origin() & b.origin());
  }
  if (op == "*" && (a.is_string() || a.is_sequence()) && b.is_integer()) return repeat(a, b.integer(), in);
  if (op == "*" && (b.is_string() || b.is_sequence()) && a.is_integer()) return repeat(b, a.integer(), in);
  if (op == "%" && a.is_string()) {
    Arguments arguments;
    if (b.is(Kind::kTuple))
      arguments.positional = b.items();
    else
      arguments.positional = {b};
    return format_percent(a.traced(), arguments, in);
  }
  fail_types(op, a, b);
}

Value negative(const Value& a) {
  if (a.is(Kind::kFloat)) return Value::real(-a.real()).with_origin(a.origin());
  if (!a.is_integer()) fail(fmt::format("- needs a number, found {}", type_name(a)));
  return integer_arithmetic("-", 0, a.integer()).with_origin(a.origin());
}

bool contains(const Value& container, const Value& item, Interpreter& in) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) fail(fmt::format("'in' a string needs a string, found {}", type_name(item)));
      in.budget.touch(container.text().size());
      return container.text().find(item.text()) != std::string::npos;
    case Kind::kDict:
      return find(container, item, in.budget) != nullptr;
    case Kind::kUndefined:
      return false;
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& v : container.items())
        if (equal(v, item, in.budget)) return true;
      return false;
    default:
      fail(fmt::format("'in' needs a container, found {}", type_name(container)));
  }
}

Value slice(const Value& v, const Value* start, const Value* stop, const Value* step, Interpreter& in) {
  if (v.is_undefined()) return in.undefined("a slice of an undefined value");
  if (!v.is_string() && !v.is_sequence())
    fail(fmt::format("a value of type {} cannot be sliced", type_name(v)));
  for (const Value* bound : {start, stop, step})
    if (bound && !bound->is_integer()) fail("the bounds of a slice must be integers");
  const int64_t stride = step ? step->integer() : 1, n = length(v);
  if (stride == 0) fail("the step of a slice cannot be zero");
  const auto clamp = [&](const Value* bound, int64_t absent) {
    if (!bound) return absent;
    int64_t i = bound->integer();
    if (i < 0) i = std::max(i + n, stride < 0 ? int64_t{-1} : 0);
    return std::min(i, stride < 0 ? n - 1 : n);
  };
  const int64_t from = clamp(start, stride < 0 ? n - 1 : 0), to = clamp(stop, stride < 0 ? -1 : n);
  const auto each = [&](auto&& visit) {
    for (int64_t i = from; stride > 0 ? i < to : i > to;) {
      visit(i);
      if (__builtin_add_overflow(i, stride, &i)) break;
    }
  };
  if (v.is_sequence()) {
    std::vector<Value> items;
    if (stride > 0 && to > from) in.budget.check_allocation(static_cast<size_t>(to - from) * sizeof(Value));
    each([&](int64_t i) { items.push_back(v.items()[i]); });
    in.budget.touch(items.size() * sizeof(Value));
    return in.heap.list(std::move(items), v.kind()).with_origin(v.origin());
  }
  const Traced& t = v.traced();
  in.budget.touch(t.size());
  const bool ascii = static_cast<size_t>(n) == t.size();
  std::vector<uint32_t> starts;  // start of each character, unless all are single bytes
  if (!ascii) {
    in.budget.check_allocation(static_cast<size_t>(n) * sizeof(uint32_t));
    for (size_t i = 0; i < t.size(); i += utf8_size(t.text()[i])) starts.push_back(static_cast<uint32_t>(i));
  }
  starts.push_back(static_cast<uint32_t>(t.size()));
  const auto byte = [&](int64_t i) { return ascii ? static_cast<size_t>(i) : starts[i]; };
  if (stride == 1) return in.heap.string(from < to ? t.slice(byte(from), byte(to)) : Traced());
  Traced out;
  in.budget.spend(n);
  each([&](int64_t i) { out.append(t, byte(i), byte(i + 1)); });
  return in.heap.string(std::move(out));
}

}  // namespace makar::jinja
