// Any bytes as an IDX file.
#include "data/idx.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(data_idx) {
  auto stream = ByteStream::from_memory({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!stream.ok()) return 0;
  const auto array = read_idx(**stream);
  if (!array.ok()) return 0;
  int64_t count = 1;
  for (const int64_t d : array->dims) count *= d;
  check(count == static_cast<int64_t>(array->bytes.size()), "as many bytes as the header says");
  return 0;
}
