// Prices: tokens and machine time as money and energy.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace makar {

struct PriceTable {
  std::string currency = "USD";
  double input = 0, output = 0;  // prices of a million input and output tokens
  double hour = 0;               // price of an hour of machine time
  double watts = 0, kwh = 0;     // power under load, and the price of a kilowatt hour
};

struct Cost {
  double money = 0, joules = 0;
  Cost& operator+=(const Cost& other) { return money += other.money, joules += other.joules, *this; }
};

// `seconds`: machine time.
Cost cost_of(const PriceTable& prices, int64_t input_tokens, int64_t output_tokens, double seconds);
// A JSON object with the fields above; unknown fields and negative prices are errors.
Result<PriceTable> read_price_table(const std::string& path);
// "0.0012 USD, 340 J"; without watts only the money.
std::string cost_text(const PriceTable& prices, const Cost& cost);

}  // namespace makar
