#include "serve/keys.h"

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/sha256.h"

namespace makar {
namespace {

constexpr size_t kMaxKeys = 10000, kMaxKeyBytes = 1024, kMaxKeyNameBytes = 64;
constexpr size_t kMaxKeyFileBytes = size_t{4} << 20;

bool equal_digests(const std::string& a, const std::string& b) {  // constant time; digests have equal length
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace

// Error messages never contain a key.
Status KeyRing::add(const std::string& key, const std::string& name, bool admin, const std::string& place) {
  const auto visible = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (key.empty() || key.size() > kMaxKeyBytes || !std::all_of(key.begin(), key.end(), visible))
    return error_at(place, "a key has 1 to {} visible characters, none of them a space", kMaxKeyBytes);
  if (name.size() > kMaxKeyNameBytes || !std::all_of(name.begin(), name.end(), visible))
    return error_at(place, "a name has up to {} visible characters, none of them a space", kMaxKeyNameBytes);
  if (keys_.size() >= kMaxKeys) return error_at(place, "there are more than {} keys; remove some", kMaxKeys);
  const std::string digest = sha256_of(key);
  for (const Key& known : keys_)
    if (known.digest == digest) return error_at(place, "this key is already listed, as {}", known.name);
  keys_.push_back({digest, name.empty() ? "key-" + digest.substr(0, 8) : name, admin});
  return Done{};
}

Result<KeyRing> KeyRing::read(const std::vector<std::string>& options, const std::string& file) {
  KeyRing ring;
  for (const std::string& list : options) {
    std::istringstream keys(list);
    for (std::string key; std::getline(keys, key, ',');)
      MAKAR_RETURN_IF_ERROR(ring.add(key, "", false, "`api_key`"));
    if (list.empty()) return error_at("`api_key`", "is empty");
  }
  if (file.empty()) return ring;
  MAKAR_TRY(const std::string text, read_file(file, kMaxKeyFileBytes));
  std::istringstream lines(text);
  int number = 0;
  const size_t option_keys = ring.keys_.size();
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string key, name, admin, extra;
    words >> key >> name >> admin >> extra;
    if (key.empty() || key[0] == '#') continue;
    const std::string place = fmt::format("{}:{}", file, number);
    if (!extra.empty() || (!admin.empty() && admin != "admin"))
      return error_at(place, "expected a key, a name and optionally the word admin, found other words");
    MAKAR_RETURN_IF_ERROR(ring.add(key, name, !admin.empty(), place));
  }
  if (ring.keys_.size() == option_keys) return error_at(file, "contains no key; expected one per line");
  return ring;
}

const KeyRing::Key* KeyRing::find(const std::string& presented) const {
  const std::string digest = sha256_of(presented);
  const Key* found = nullptr;
  for (const Key& key : keys_)
    if (equal_digests(key.digest, digest)) found = &key;
  return found;
}

}  // namespace makar
