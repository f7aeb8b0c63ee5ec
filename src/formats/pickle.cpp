#include "formats/pickle.h"

#include <algorithm>

#include "formats/pickle_machine.h"

namespace makar {

constexpr size_t kMaxPickleBytes = size_t{256} << 20;

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed)
    : bytes_(bytes.first(std::min(bytes.size(), kMaxPickleBytes))), place_(place), allowed_(allowed) {}

Result<Pickle> PickleMachine::run() {
  while (!stopped_) {
    if (at_ >= bytes_.size()) return error_at(here(), "the pickle has no end; the download is incomplete");
    op_at_ = at_;
    const auto op = static_cast<uint8_t>(bytes_[at_++]);
    MAKAR_CHECK_OK(step(op));
  }
  out_.bytes = at_;
  return std::move(out_);
}

std::string PickleMachine::here() const { return fmt::format("{}: byte {} of the pickle", place_, op_at_); }

Error PickleMachine::broken(const char* what) const {
  return error_at(here(), "{}; the pickle is corrupt", what);
}

Status PickleMachine::step(uint8_t op) {
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
      return store_memo(memo_.size());
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

Result<Pickle> read_pickle(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed) {
  return PickleMachine(bytes, place, allowed).run();
}

}  // namespace makar
