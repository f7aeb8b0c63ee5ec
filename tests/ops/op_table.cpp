#include "ops/op_table.h"

namespace makar::test {

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table = [] {
    std::vector<OpRow> rows;
    add_matrix_rows(rows);
    add_elementwise_rows(rows);
    add_norm_rows(rows);
    add_loss_rows(rows);
    add_attention_rows(rows);
    add_scan_rows(rows);
    add_shape_rows(rows);
    return rows;
  }();
  return table;
}

}  // namespace makar::test
