#include "curate/pii.h"

#include <algorithm>

namespace makar {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}
// Whether the local part of an e-mail address may have this character.
bool is_local(char c) { return is_alnum(c) || std::string_view("._%+-'").find(c) != std::string_view::npos; }

// The longest e-mail address around the '@' at `at`; empty if there is none. Bounded: 64 bytes before, 255
// after.
std::pair<size_t, size_t> email_at(std::string_view text, size_t at) {
  size_t from = at, end = at + 1;
  while (from > 0 && at - from < 64 && is_local(text[from - 1])) --from;
  while (from < at && !is_alnum(text[from])) ++from;
  size_t dots = 0, last_dot = 0;
  while (end < text.size() && end - at < 255 &&
         (is_alnum(text[end]) || text[end] == '-' || text[end] == '.')) {
    if (text[end] == '.') {
      if (end + 1 >= text.size() || !is_alnum(text[end + 1])) break;
      ++dots, last_dot = end;
    }
    ++end;
  }
  if (from == at || dots == 0 || end - last_dot < 3) return {0, 0};
  return {from, end};
}

struct Number {
  size_t end = 0;
  std::string digits;
  size_t groups = 1;
  bool plus = false, parentheses = false, dots = false, dashes = false;
};

// Digits with blanks, dots, dashes and parentheses between them, from `at`.
Number number_at(std::string_view text, size_t at) {
  Number n;
  size_t i = at;
  if (text[i] == '+') n.plus = true, ++i;
  size_t gap = 0;
  for (; i < text.size() && n.digits.size() < 40; ++i) {
    const char c = text[i];
    if (is_digit(c)) {
      if (gap > 0 && !n.digits.empty()) ++n.groups;
      gap = 0;
      n.digits += c, n.end = i + 1;
    } else if (c == ' ' || c == '-' || c == '.' || c == '(' || c == ')') {
      if (++gap > 2) break;
      const bool between =
          i + 1 < text.size() && (is_digit(text[i + 1]) || text[i + 1] == '(' || text[i + 1] == ' ');
      if (!between) break;
      n.parentheses |= c == '(', n.dots |= c == '.', n.dashes |= c == '-';
    } else {
      break;
    }
  }
  n.parentheses |= at > 0 && text[at - 1] == '(';
  return n;
}

bool is_ip(std::string_view text, size_t at, size_t& end) {
  size_t i = at;
  for (int part = 0; part < 4; ++part) {
    int value = 0, digits = 0;
    while (i < text.size() && is_digit(text[i]) && digits < 4)
      value = value * 10 + (text[i++] - '0'), ++digits;
    if (digits == 0 || digits > 3 || value > 255) return false;
    if (part < 3 && (i >= text.size() || text[i++] != '.')) return false;
  }
  end = i;
  return i >= text.size() ||
         (!is_digit(text[i]) && !(text[i] == '.' && i + 1 < text.size() && is_digit(text[i + 1])));
}

// Two letters, two check digits, 11 to 30 letters and digits; the number modulo 97 is 1.
bool is_iban(std::string_view text, size_t at, size_t& end) {
  std::string body;
  size_t i = at;
  for (; i < text.size() && body.size() < 34; ++i) {
    if (is_digit(text[i]) || (text[i] >= 'A' && text[i] <= 'Z'))
      body += text[i], end = i + 1;
    else if (text[i] != ' ' || body.size() % 4 != 0)
      break;
  }
  const auto valid = [&](std::string_view iban) {
    if (iban.size() < 15) return false;
    int mod97 = 0;
    for (size_t k = 0; k < iban.size(); ++k) {
      const char c = iban[(k + 4) % iban.size()];
      mod97 = is_digit(c) ? (mod97 * 10 + (c - '0')) % 97 : (mod97 * 100 + (c - 'A' + 10)) % 97;
    }
    return mod97 == 1;
  };
  if (body.size() < 15 || !is_digit(body[2]) || !is_digit(body[3])) return false;
  return valid(body) && (end >= text.size() || !is_alnum(text[end]));
}

bool is_card(const Number& n) {
  if (n.digits.size() < 13 || n.digits.size() > 19 || n.plus) return false;
  const char first = n.digits[0];
  return first >= '2' && first <= '6' && luhn_valid(n.digits);
}

bool is_ssn(std::string_view text, const Number& n) {
  return n.digits.size() == 9 && n.groups == 3 && n.dashes && text.size() >= 11 && text[3] == '-' &&
         text[6] == '-' && n.digits.substr(0, 3) != "000" && n.digits.substr(0, 3) != "666" &&
         n.digits[0] != '9';
}

// A date (2024-01-31, 31.01.2024) is not a phone number.
bool is_date(std::string_view number_text) {
  const auto year = [](std::string_view y) {
    return y.size() == 4 && (y.starts_with("19") || y.starts_with("20"));
  };
  return number_text.size() <= 10 &&
         (year(number_text.substr(0, 4)) ||
          (number_text.size() >= 4 && year(number_text.substr(number_text.size() - 4)))) &&
         number_text.find_first_of("-.") != number_text.npos && number_text.size() >= 8;
}

bool is_phone(std::string_view number_text, const Number& n) {
  if (n.plus) return n.digits.size() >= 8 && n.digits.size() <= 15;
  if (is_date(number_text)) return false;
  if (n.digits.size() == 10 && n.groups == 3) return true;
  if (n.digits.size() == 11 && n.digits[0] == '1' && n.groups >= 2) return true;
  return n.digits[0] == '0' && n.groups >= 2 && n.digits.size() >= 9 && n.digits.size() <= 13;
}

}  // namespace

const char* name(Pii kind) {
  constexpr const char* kNames[] = {"email", "phone", "card", "ip", "iban", "ssn"};
  return kNames[static_cast<size_t>(kind)];
}

uint64_t PiiResult::total() const {
  uint64_t out = 0;
  for (const uint64_t f : found) out += f;
  return out;
}

bool luhn_valid(std::string_view digits) {
  int sum = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    int d = digits[digits.size() - 1 - i] - '0';
    if (i % 2 == 1) d = d > 4 ? d * 2 - 9 : d * 2;
    sum += d;
  }
  return !digits.empty() && sum % 10 == 0;
}

PiiResult remove_pii(std::string_view text) {
  PiiResult out;
  size_t done = 0;  // bytes of the text that are copied or replaced
  const auto replace = [&](Pii kind, const char* placeholder, size_t from, size_t end) {
    out.text.append(text.substr(done, from - done)).append(placeholder);
    ++out.found[static_cast<size_t>(kind)];
    done = end;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (at < done) continue;
    const char c = text[at];
    const bool starts_word = at == 0 || !is_alnum(text[at - 1]);
    if (c == '@') {
      if (const auto [from, end] = email_at(text, at); end > 0 && from >= done)
        replace(Pii::kEmail, "[EMAIL]", from, end);
      continue;
    }
    if (c >= 'A' && c <= 'Z' && starts_word && at + 3 < text.size() && text[at + 1] >= 'A' &&
        text[at + 1] <= 'Z' && is_digit(text[at + 2])) {
      size_t end = 0;
      if (is_iban(text, at, end)) replace(Pii::kIban, "[IBAN]", at, end);
      continue;
    }
    if (!starts_word || !(is_digit(c) || (c == '+' && at + 1 < text.size() && is_digit(text[at + 1]))))
      continue;
    if (at > 0 && (text[at - 1] == '.' || text[at - 1] == '-' || text[at - 1] == '/' || text[at - 1] == '@' ||
                   text[at - 1] == '$'))
      continue;
    size_t end = 0;
    if (c != '+' && is_ip(text, at, end)) {
      replace(Pii::kIp, "[IP]", at, end);
      continue;
    }
    const Number n = number_at(text, at);
    if (n.end == 0) continue;
    const bool ends_word = n.end >= text.size() || (!is_alnum(text[n.end]) && text[n.end] != '@');
    const std::string_view number_text = text.substr(at, n.end - at);
    if (ends_word && is_card(n))
      replace(Pii::kCard, "[CARD]", at, n.end);
    else if (ends_word && is_ssn(number_text, n))
      replace(Pii::kSsn, "[SSN]", at, n.end);
    else if (ends_word && is_phone(number_text, n))
      replace(Pii::kPhone, "[PHONE]",
              at - (at > done && text[at - 1] == '(' && number_text.find(')') != number_text.npos), n.end);
    else
      at = n.end - 1;
  }
  out.text.append(text.substr(done));
  return out;
}

}  // namespace makar
