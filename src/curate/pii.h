// Personal data in texts: e-mail addresses, phone numbers, card numbers (with a valid check digit), IP
// addresses, IBANs and US social security numbers are replaced by a placeholder such as [EMAIL].
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace makar {

enum class Pii { kEmail, kPhone, kCard, kIp, kIban, kSsn };
constexpr size_t kPiiKinds = 6;
const char* name(Pii kind);  // "email"

struct PiiResult {
  std::string text;
  std::array<uint64_t, kPiiKinds> found = {};  // replacements by kind
  uint64_t total() const;
};
PiiResult remove_pii(std::string_view text);

bool luhn_valid(std::string_view digits);

}  // namespace makar
