// Any bytes as a dataset in every format (selected by the first byte): records or counted errors, no crash,
// bounded messages.
#include "data/record_reader.h"
#include "data/schema.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(data_records) {
  if (size < 1) return 0;
  const auto format = static_cast<RecordFormat>(data[0] % 7);
  auto stream = ByteStream::from_memory({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz");
  if (!stream.ok()) return 0;
  const auto reader = FileReader::make(std::move(*stream), format);
  BadRecords bad;
  DataRecord record;
  for (int i = 0; i < 100000; ++i) {
    const auto found = reader->next(record, bad);
    if (!found.ok()) {
      check(found.error().text().size() < 4000, "a bounded message");
      break;
    }
    if (!*found) break;
    check(record.value.is_object(), "a record is an object");
    if (const auto schema = detect_schema(record.value)) (void)to_messages(record.value, *schema).ok();
  }
  check(bad.reported.size() <= BadRecords::kMaxReported, "the number of reported records is limited");
  for (const auto& line : bad.reported) check(line.size() < 4000, "a bounded message");
  return 0;
}
