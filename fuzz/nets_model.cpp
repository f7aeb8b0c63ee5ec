// Any JSON as the description of a network: no crash; what is accepted writes and reads back the same.
#include "nets/conv_nets.h"
#include "nets/mlp.h"
#include "nets/table.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(nets_model) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "", {size_t{1} << 20, 32});
  if (!json.ok()) return 0;
  if (const auto spec = mlp_from_json(*json, ""); spec.ok()) {
    const Json once = to_json(*spec);
    check(to_json(mlp_from_json(once, "").value()) == once, "a network reads back the same");
  }
  if (const auto spec = conv_from_json(*json, ""); spec.ok()) {
    const Json once = to_json(*spec);
    check(to_json(conv_from_json(once, "").value()) == once, "a convolutional network reads back the same");
  }
  if (const auto table = TableEncoder::from_json(*json, ""); table.ok()) {
    check(TableEncoder::from_json(table->json(), "")->json() == table->json(), "a table reads back the same");
    TableRow row;
    row.fields = {{"x", "1"}, {"colour", "red"}};
    row.target = "1";
    (void)table->encode(row, "");
    (void)table->target(row, "");
  }
  return 0;
}
