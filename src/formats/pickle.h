// Python pickles as plain data. Nothing is imported, called or created: a name is only a string, and the
// caller decides which names are allowed. The error for any other name contains it.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace makar {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInteger,
    kFloat,
    kText,        // str or bytes
    kItems,       // list, tuple or set
    kDict,        // `pairs`
    kGlobal,      // `text`: "module.name"
    kCall,        // `text` called with `arguments`
    kStorage,     // a persistent id: `arguments`
    kBigInteger,  // more than 64 bits: its bytes in `text`
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also of kBool
  double number = 0;
  std::string text;
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> pairs;
  const PickleValue* arguments = nullptr;  // kItems
};

// The values of one pickle, which live as long as this object.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
  size_t bytes = 0;  // consumed
};

using AllowedName = bool (*)(std::string_view name);

// Reads the pickle at the start of `bytes`. Memory is bounded by a multiple of its size.
Result<Pickle> read_pickle(std::span<const std::byte> bytes, const std::string& place, AllowedName allowed);

}  // namespace makar
