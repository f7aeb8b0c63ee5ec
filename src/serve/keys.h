// The keys that clients may show. They are kept and compared as digests; a name stands for each in the log.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

class KeyRing {
 public:
  // Keys as options give them ("a" or "a,b") and those of a file: one a line, a name after it where it has
  // one, '#' for remarks. An empty file name is none.
  static Result<KeyRing> read(const std::vector<std::string>& given, const std::string& file);

  bool empty() const { return keys_.empty(); }
  // The name of a key, or nullptr. Takes as long for every key that is shown.
  const std::string* find(const std::string& shown) const;

 private:
  struct Key {
    std::string digest, name;
  };
  Status add(const std::string& key, const std::string& name, const std::string& place);
  std::vector<Key> keys_;
};

}  // namespace makar
