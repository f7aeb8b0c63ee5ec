#include "formats/pickle.h"

#include <algorithm>

#include "formats/pickle_machine.h"

namespace makar {

constexpr size_t kMaxPickleBytes = size_t{256} << 20;

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed)
    : bytes_(bytes.first(std::min(bytes.size(), kMaxPickleBytes))), place_(place), allowed_(allowed) {}

Result<Pickle> PickleMachine::run() {
  while (!stopped_) {
    if (at_ >= kMaxPickleBytes)
      return error_of(Error::Kind::kLimit, here(), "the pickle has more than {} bytes", kMaxPickleBytes);
    if (at_ >= bytes_.size()) return error_at(here(), "the pickle has no end; the download is incomplete");
    op_at_ = at_;
    const auto op = static_cast<uint8_t>(bytes_[at_++]);
    MAKAR_RETURN_IF_ERROR(step(op));
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
    case 0x80:  // PROTO
      return skip(1);
    case 0x95:  // FRAME
      return skip(8);
    case '.':  // STOP
      return stop();
    case '(':  // MARK
      return marks_.push_back(stack_.size()), Status(Done{});
    case '0':  // POP
      return take(1).ok() ? Status(Done{}) : broken("a value is missing");
    case '1':  // POP_MARK
      return pop_mark().ok() ? Status(Done{}) : broken("a mark is missing");
    case 'N':  // NONE
      return push({});
    case 0x88:  // NEWTRUE
      return push(integer(1, Kind::kBool));
    case 0x89:  // NEWFALSE
      return push(integer(0, Kind::kBool));
    case 'I':  // INT
    case 'L':  // LONG
      return decimal();
    case 'F':  // FLOAT
      return decimal_float();
    case 'J':  // BININT
      return fixed_integer<int32_t>();
    case 'K':  // BININT1
      return fixed_integer<uint8_t>();
    case 'M':  // BININT2
      return fixed_integer<uint16_t>();
    case 0x8a:  // LONG1
      return long_integer(1);
    case 0x8b:  // LONG4
      return long_integer(4);
    case 'G':  // BINFLOAT
      return big_endian_float();
    case 'X':  // BINUNICODE
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
      return text(4);
    case 0x8c:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
    case 'C':   // SHORT_BINBYTES
      return text(1);
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
      return text(8);
    case 'V':  // UNICODE
    case 'S':  // STRING
      return text_line();
    case ']':   // EMPTY_LIST
    case ')':   // EMPTY_TUPLE
    case 0x8f:  // EMPTY_SET
      return push(items({}));
    case '}': {  // EMPTY_DICT
      PickleValue v;
      v.kind = Kind::kDict;
      return push(std::move(v));
    }
    case 'l':   // LIST
    case 't':   // TUPLE
    case 0x91:  // FROZENSET
      return items_since_mark();
    case 0x85:  // TUPLE1
      return tuple(1);
    case 0x86:  // TUPLE2
      return tuple(2);
    case 0x87:  // TUPLE3
      return tuple(3);
    case 'a':  // APPEND
      return append();
    case 'e':   // APPENDS
    case 0x90:  // ADDITEMS
      return append_all();
    case 'd':  // DICT
      return new_dict();
    case 's':  // SETITEM
      return set_item();
    case 'u':  // SETITEMS
      return set_items();
    case 'c':  // GLOBAL
      return global();
    case 0x93:  // STACK_GLOBAL
      return stack_global();
    case 'R':  // REDUCE
      return call();
    case 'b':  // BUILD
      return take(1).ok() && !stack_.empty() ? Status(Done{}) : broken("a value is missing");
    case 'Q':  // BINPERSID
      return storage();
    case 'p':  // PUT
      return put_line();
    case 'q':  // BINPUT
      return put(1);
    case 'r':  // LONG_BINPUT
      return put(4);
    case 0x94:  // MEMOIZE
      return store_memo(memo_.size());
    case 'g':  // GET
      return get_line();
    case 'h':  // BINGET
      return get(1);
    case 'j':  // LONG_BINGET
      return get(4);
    case '2':  // DUP
      return stack_.empty() ? broken("a value is missing")
                            : (stack_.push_back(stack_.back()), Status(Done{}));
    case 'i':   // INST
    case 'o':   // OBJ
    case 0x81:  // NEWOBJ
    case 0x92:  // NEWOBJ_EX
    case 0x82:  // EXT1
    case 0x83:  // EXT2
    case 0x84:  // EXT4
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
