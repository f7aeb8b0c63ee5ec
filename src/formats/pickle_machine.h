// The stack machine of Python's pickle format (https://docs.python.org/3/library/pickletools.html), without
// the instructions that create objects.
#pragma once
#include <unordered_map>

#include "formats/pickle.h"

namespace makar {

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed);
  Result<Pickle> run();

 private:
  using Kind = PickleValue::Kind;
  std::string here() const;
  Error broken(const char* what) const;
  Status step(uint8_t op);

  // Bytes of the file, and the instructions for numbers and texts (pickle_numbers.cpp).
  bool has(uint64_t n) const;
  Status skip(size_t n);
  Result<uint64_t> number(size_t n);
  Result<std::string> bytes(uint64_t n);
  Result<std::string> line();
  Status decimal();
  Status float_value(double v);
  Status decimal_float();
  Status big_endian_float();
  Status long_integer(size_t length_bytes);
  Status text(size_t length_bytes);
  Status text_line();
  template <class T>
  Status fixed_integer() {
    MAKAR_TRY(const uint64_t v, number(sizeof(T)));
    return push(integer(static_cast<T>(v)));
  }

  // Values on the stack, containers, names and the memo (pickle_values.cpp).
  static PickleValue integer(int64_t v, Kind kind = Kind::kInteger);
  static PickleValue items(std::vector<const PickleValue*> list);
  static PickleValue with_text(Kind kind, std::string s);
  Status push(PickleValue v);
  // Pops the top n values; fails if they reach below the last mark.
  Result<std::vector<PickleValue*>> take(size_t n);
  Result<std::vector<PickleValue*>> pop_mark();
  Status stop();
  Status items_since_mark();
  Status tuple(size_t n);
  Result<PickleValue*> top(Kind kind);
  Status append();
  Status append_all();
  Status add_pairs(PickleValue& dict, const std::vector<PickleValue*>& flat);
  Status new_dict();
  Status set_item();
  Status set_items();
  Status add_global(const std::string& module, const std::string& name);
  Status global();
  Status stack_global();
  Status call();
  Status storage();
  Status store_memo(uint64_t key);
  Status push_memo(uint64_t key);
  Status put(size_t n);
  Status get(size_t n);
  Status put_line();
  Status get_line();

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

}  // namespace makar
