#include "formats/pickle.h"

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/quote.h"

namespace makar {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;
using Kind = PickleValue::Kind;

// The stack machine of the format: https://docs.python.org/3/library/pickletools.html
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed)
      : bytes_(bytes.first(std::min(bytes.size(), kMaxBytes))), place_(place), allowed_(allowed) {}

  Result<Pickle> run() {
    while (!stopped_) {
      if (at_ >= bytes_.size()) return error_at(here(), "the pickle has no end; the download is incomplete");
      op_at_ = at_;
      const auto op = static_cast<uint8_t>(bytes_[at_++]);
      MAKAR_CHECK_OK(step(op));
    }
    out_.bytes = at_;
    return std::move(out_);
  }

 private:
  std::string here() const { return fmt::format("{}: byte {} of the pickle", place_, op_at_); }
  Error broken(const char* what) const { return error_at(here(), "{}; the pickle is corrupt", what); }

  Status step(uint8_t op) {
    switch (op) {
      case 0x80:
        return skip(1);  // PROTO
      case 0x95:
        return skip(8);  // FRAME
      case '.':
        return stop();  // STOP
      case '(':
        return marks_.push_back(stack_.size()), Status(Done{});
      case '0':
        return take(1).ok() ? Status(Done{}) : broken("a value is missing");
      case '1':
        return pop_mark().ok() ? Status(Done{}) : broken("a mark is missing");
      case 'N':
        return push({});
      case 0x88:
        return push(integer(1, Kind::kBool));
      case 0x89:
        return push(integer(0, Kind::kBool));
      case 'I':
      case 'L':
        return decimal();
      case 'F':
        return decimal_float();
      case 'J':
        return fixed<int32_t>();
      case 'K':
        return fixed<uint8_t>();
      case 'M':
        return fixed<uint16_t>();
      case 0x8a:
        return long_integer(1);
      case 0x8b:
        return long_integer(4);
      case 'G':
        return big_endian_float();
      case 'X':
      case 'T':
      case 'B':
        return text(4);
      case 0x8c:
      case 'U':
      case 'C':
        return text(1);
      case 0x8d:
      case 0x8e:
        return text(8);
      case 'V':
      case 'S':
        return text_line();
      case ']':
      case ')':
      case 0x8f:
        return push(items({}));
      case '}': {
        PickleValue v;
        v.kind = Kind::kDict;
        return push(std::move(v));
      }
      case 'l':
      case 't':
      case 0x91:
        return items_since_mark();
      case 0x85:
        return tuple(1);
      case 0x86:
        return tuple(2);
      case 0x87:
        return tuple(3);
      case 'a':
        return append();
      case 'e':
      case 0x90:
        return append_all();
      case 'd':
        return new_dict();
      case 's':
        return set_item();
      case 'u':
        return set_items();
      case 'c':
        return global();
      case 0x93:
        return stack_global();
      case 'R':
        return call();
      case 'b':
        return take(1).ok() && !stack_.empty() ? Status(Done{}) : broken("a value is missing");
      case 'Q':
        return storage();
      case 'p':
        return put_line();
      case 'q':
        return put(1);
      case 'r':
        return put(4);
      case 0x94:
        return remember(memo_.size());
      case 'g':
        return get_line();
      case 'h':
        return get(1);
      case 'j':
        return get(4);
      case '2':
        return stack_.empty() ? broken("a value is missing")
                              : (stack_.push_back(stack_.back()), Status(Done{}));
      case 'i':
      case 'o':
      case 0x81:
      case 0x92:
      case 0x82:
      case 0x83:
      case 0x84:
        return error_of(Error::Kind::kUnsupported, here(),
                        "the pickle creates an object (opcode 0x{:02x}); refused: weights need tensors only, "
                        "and other objects could run code",
                        op);
      default:
        return error_at(here(),
                        "0x{:02x} is not a pickle instruction that weights use; the file is corrupt or "
                        "contains more than tensors",
                        op);
    }
  }

  // --- bytes ---
  bool has(uint64_t n) const { return n <= bytes_.size() - at_; }
  Status skip(size_t n) { return has(n) ? (at_ += n, Status(Done{})) : broken("the pickle ends early"); }
  Result<uint64_t> number(size_t n) {
    if (!has(n)) return broken("the pickle ends early");
    uint64_t v = 0;
    std::memcpy(&v, bytes_.data() + at_, n);
    at_ += n;
    return v;
  }
  Result<std::string> bytes(uint64_t n) {
    if (!has(n)) return broken("a text continues after the end");
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return s;
  }
  Result<std::string> line() {
    const auto* start = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const auto* end = static_cast<const char*>(std::memchr(start, '\n', bytes_.size() - at_));
    if (!end) return broken("a line has no end");
    at_ += static_cast<size_t>(end - start) + 1;
    return std::string(start, end);
  }

  // --- values ---
  static PickleValue integer(int64_t v, Kind kind = Kind::kInteger) {
    PickleValue out;
    out.kind = kind, out.integer = v;
    return out;
  }
  static PickleValue items(std::vector<const PickleValue*> list) {
    PickleValue out;
    out.kind = Kind::kItems, out.items = std::move(list);
    return out;
  }
  static PickleValue named(Kind kind, std::string s) {
    PickleValue out;
    out.kind = kind, out.text = std::move(s);
    return out;
  }
  Status push(PickleValue v) {
    out_.values.push_back(std::move(v));
    stack_.push_back(&out_.values.back());
    return Done{};
  }
  // Pops the top n values, not beyond the last mark.
  Result<std::vector<PickleValue*>> take(size_t n) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + n) return broken("a value is missing");
    std::vector<PickleValue*> out(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    return out;
  }
  Result<std::vector<PickleValue*>> pop_mark() {
    if (marks_.empty()) return broken("a mark is missing");
    const size_t n = stack_.size() - marks_.back();
    auto out = take(n);
    marks_.pop_back();
    return out;
  }

  // --- instructions ---
  Status stop() {
    MAKAR_TRY(const auto top, take(1));
    out_.root = top[0];
    stopped_ = true;
    return Done{};
  }
  Status decimal() {
    MAKAR_TRY(std::string s, line());
    if (s.ends_with('L')) s.pop_back();
    if (s == "00" || s == "01") return push(integer(s == "01", Kind::kBool));
    char* end = nullptr;
    errno = 0;
    const long long v = std::strtoll(s.c_str(), &end, 10);
    if (s.empty() || *end || errno) return broken("expected a 64-bit integer");
    return push(integer(v));
  }
  Status float_value(double v) {
    PickleValue out;
    out.kind = Kind::kFloat, out.number = v;
    return push(std::move(out));
  }
  Status decimal_float() {
    MAKAR_TRY(const std::string s, line());
    return float_value(std::strtod(s.c_str(), nullptr));
  }
  Status big_endian_float() {
    MAKAR_TRY(const uint64_t v, number(8));
    return float_value(std::bit_cast<double>(__builtin_bswap64(v)));
  }
  template <class T>
  Status fixed() {
    MAKAR_TRY(const uint64_t v, number(sizeof(T)));
    return push(integer(static_cast<T>(v)));
  }
  Status long_integer(size_t length_bytes) {
    MAKAR_TRY(const uint64_t n, number(length_bytes));
    MAKAR_TRY(const std::string s, bytes(n));
    if (n > 8) return push(named(Kind::kBigInteger, s));
    int64_t v = 0;
    std::memcpy(&v, s.data(), n);
    if (n > 0 && n < 8 && (s.back() & 0x80)) v -= int64_t{1} << (8 * n);
    return push(integer(v));
  }
  Status text(size_t length_bytes) {
    MAKAR_TRY(const uint64_t n, number(length_bytes));
    MAKAR_TRY(std::string s, bytes(n));
    return push(named(Kind::kText, std::move(s)));
  }
  Status text_line() {
    MAKAR_TRY(std::string s, line());
    if (s.size() >= 2 && (s[0] == '\'' || s[0] == '"') && s.back() == s[0]) s = s.substr(1, s.size() - 2);
    return push(named(Kind::kText, std::move(s)));
  }
  Status items_since_mark() {
    MAKAR_TRY(const auto list, pop_mark());
    return push(items({list.begin(), list.end()}));
  }
  Status tuple(size_t n) {
    MAKAR_TRY(const auto list, take(n));
    return push(items({list.begin(), list.end()}));
  }
  Result<PickleValue*> top(Kind kind) {
    MAKAR_TRY(const auto one, take(1));
    stack_.push_back(one[0]);
    if (one[0]->kind != kind)
      return broken("an item is added to a value that is not a container of its kind");
    return one[0];
  }
  Status append() {
    MAKAR_TRY(const auto one, take(1));
    MAKAR_TRY(PickleValue * list, top(Kind::kItems));
    list->items.push_back(one[0]);
    return Done{};
  }
  Status append_all() {
    MAKAR_TRY(const auto more, pop_mark());
    MAKAR_TRY(PickleValue * list, top(Kind::kItems));
    list->items.insert(list->items.end(), more.begin(), more.end());
    return Done{};
  }
  Status add_pairs(PickleValue& dict, const std::vector<PickleValue*>& flat) {
    if (flat.size() % 2) return broken("a key has no value");
    for (size_t i = 0; i < flat.size(); i += 2) dict.pairs.emplace_back(flat[i], flat[i + 1]);
    return Done{};
  }
  Status new_dict() {
    MAKAR_TRY(const auto flat, pop_mark());
    PickleValue v;
    v.kind = Kind::kDict;
    MAKAR_CHECK_OK(add_pairs(v, flat));
    return push(std::move(v));
  }
  Status set_item() {
    MAKAR_TRY(const auto flat, take(2));
    MAKAR_TRY(PickleValue * dict, top(Kind::kDict));
    return add_pairs(*dict, flat);
  }
  Status set_items() {
    MAKAR_TRY(const auto flat, pop_mark());
    MAKAR_TRY(PickleValue * dict, top(Kind::kDict));
    return add_pairs(*dict, flat);
  }
  Status add_global(const std::string& module, const std::string& name) {
    std::string full = module + "." + name;
    if (!allowed_(full))
      return error_of(Error::Kind::kUnsupported, here(),
                      "the pickle imports {}, which tensors do not need; refused because it could run "
                      "code: do not load this file elsewhere unless you trust its author",
                      quote(full.substr(0, 200)));
    return push(named(Kind::kGlobal, std::move(full)));
  }
  Status global() {
    MAKAR_TRY(const std::string module, line());
    MAKAR_TRY(const std::string name, line());
    return add_global(module, name);
  }
  Status stack_global() {
    MAKAR_TRY(const auto two, take(2));
    if (two[0]->kind != Kind::kText || two[1]->kind != Kind::kText) return broken("a name is not a text");
    return add_global(two[0]->text, two[1]->text);
  }
  Status call() {
    MAKAR_TRY(const auto two, take(2));
    if (two[0]->kind != Kind::kGlobal || two[1]->kind != Kind::kItems)
      return broken("a call has no name or no arguments");
    if (two[0]->text == "collections.OrderedDict") {
      PickleValue dict;
      dict.kind = Kind::kDict;
      return push(std::move(dict));
    }
    PickleValue v = named(Kind::kCall, two[0]->text);
    v.arguments = two[1];
    return push(std::move(v));
  }
  Status storage() {
    MAKAR_TRY(const auto one, take(1));
    if (one[0]->kind != Kind::kItems) return broken("a storage is not described by a tuple");
    PickleValue v;
    v.kind = Kind::kStorage, v.arguments = one[0];
    return push(std::move(v));
  }
  Status remember(uint64_t key) {
    if (stack_.empty()) return broken("a value is missing");
    memo_[key] = stack_.back();
    return Done{};
  }
  Status recall(uint64_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) return broken("a memo entry is read before it is stored");
    stack_.push_back(it->second);
    return Done{};
  }
  Status put(size_t n) {
    MAKAR_TRY(const uint64_t key, number(n));
    return remember(key);
  }
  Status get(size_t n) {
    MAKAR_TRY(const uint64_t key, number(n));
    return recall(key);
  }
  Status put_line() {
    MAKAR_TRY(const std::string s, line());
    return remember(std::strtoull(s.c_str(), nullptr, 10));
  }
  Status get_line() {
    MAKAR_TRY(const std::string s, line());
    return recall(std::strtoull(s.c_str(), nullptr, 10));
  }

  std::span<const std::byte> bytes_;
  const std::string& place_;
  AllowedName allowed_;
  size_t at_ = 0, op_at_ = 0;
  bool stopped_ = false;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  Pickle out_;
};

}  // namespace

Result<Pickle> read_pickle(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed) {
  return Machine(bytes, place, allowed).run();
}

}  // namespace makar
