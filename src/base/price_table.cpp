#include "base/price_table.h"

#include <cmath>

#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace makar {

constexpr double kJoulesPerKwh = 3.6e6;

Cost cost_of(const PriceTable& prices, int64_t input_tokens, int64_t output_tokens, double seconds) {
  constexpr double kMillion = 1e6, kHour = 3600;
  Cost out;
  out.joules = prices.watts * seconds;
  out.money = (static_cast<double>(input_tokens) * prices.input +
               static_cast<double>(output_tokens) * prices.output) /
                  kMillion +
              seconds * prices.hour / kHour + out.joules / kJoulesPerKwh * prices.kwh;
  return out;
}

Result<PriceTable> read_price_table(const std::string& path) {
  MAKAR_TRY(const Json json, read_json(path));
  if (!json.is_object())
    return error_at(path, "expected an object with the fields currency, input, output, hour, watts, kwh");
  PriceTable out;
  const std::vector<std::pair<std::string, double*>> numbers = {{"input", &out.input},
                                                                {"output", &out.output},
                                                                {"hour", &out.hour},
                                                                {"watts", &out.watts},
                                                                {"kwh", &out.kwh}};
  std::vector<std::string> known = {"currency"};
  for (const auto& [name, to] : numbers) known.push_back(name);
  for (const auto& [key, value] : json.items()) {
    const std::string place = path + ": " + key;
    if (key == "currency") {
      const bool is_code = value.is_string() && !value.get_ref<const std::string&>().empty() &&
                           value.get_ref<const std::string&>().size() <= 8 &&
                           value.get_ref<const std::string&>().find_first_not_of(
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == std::string::npos;
      if (!is_code) return error_at(place, "expected a currency code of 1 to 8 letters, such as USD or EUR");
      out.currency = value.get<std::string>();
      continue;
    }
    double* to = nullptr;
    for (const auto& [name, target] : numbers)
      if (name == key) to = target;
    if (!to) return error_at(path, "unknown field {}{}", quote(key), did_you_mean(key, known));
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>()))
      return error_at(place, "expected a number that is not negative");
    *to = value.get<double>();
  }
  return out;
}

std::string cost_text(const PriceTable& prices, const Cost& cost) {
  std::string out = fmt::format("{:.4g} {}", cost.money, prices.currency);
  if (prices.watts > 0)
    out +=
        fmt::format(", {:.4g} {}", cost.joules >= kJoulesPerKwh ? cost.joules / kJoulesPerKwh : cost.joules,
                    cost.joules >= kJoulesPerKwh ? "kWh" : "J");
  return out;
}

}  // namespace makar
