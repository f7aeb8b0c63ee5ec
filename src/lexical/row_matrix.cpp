#include "lexical/row_matrix.h"

namespace makar {

void PrivateRows::copy(uint32_t at) {
  const auto slot = static_cast<uint32_t>(used_rows_.size());
  if (slot / kBlockRows == blocks_.size())
    blocks_.push_back(std::make_unique<float[]>(kBlockRows * matrix_.stride()));
  slots_[at] = slot;
  used_rows_.push_back(at), uses_.push_back(0);
  std::memcpy(row_copy(slot), matrix_.row(at), matrix_.stride() * sizeof(float));
}

void PrivateRows::finish() {
  for (uint32_t slot = 0; slot < used_rows_.size(); ++slot) {
    float* change = row_copy(slot);
    const float* before = matrix_.row(used_rows_[slot]);
    for (size_t i = 0; i < matrix_.stride(); ++i) change[i] -= before[i];
  }
}

void PrivateRows::count_uses(std::vector<RowUses>& uses, uint32_t part, uint32_t parts) const {
  for (uint32_t slot = 0; slot < used_rows_.size(); ++slot)
    if (const uint32_t at = used_rows_[slot]; at % parts == part)
      uses[at].uses += uses_[slot], ++uses[at].chunks;
}

void PrivateRows::add_to(RowMatrix& matrix, const std::vector<RowUses>& uses, float step, uint32_t part,
                         uint32_t parts) {
  for (uint32_t slot = 0; slot < used_rows_.size(); ++slot)
    if (const uint32_t at = used_rows_[slot]; at % parts == part)
      add_scaled(matrix.row(at), share_of(uses[at], step), row_copy(slot), matrix.stride());
}

void PrivateRows::reset_uses(std::vector<RowUses>& uses, uint32_t part, uint32_t parts) const {
  for (const uint32_t at : used_rows_)
    if (at % parts == part) uses[at] = {};
}

void PrivateRows::clear() {
  for (const uint32_t at : used_rows_) slots_[at] = kNone;
  used_rows_.clear(), uses_.clear();
}

}  // namespace makar
