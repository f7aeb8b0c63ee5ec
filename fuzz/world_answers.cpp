// Any bytes as an answers file of `makar data world check`: counted answers or counted errors, bounded
// messages.
#include "target.h"
#include "world/check.h"

using namespace makar;

FUZZ_TARGET(world_answers) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string plain = world::normalized(bytes);
  check(world::normalized(plain) == plain, "normalizing twice changes nothing");
  if (const auto id = world::parse_id(bytes); id.ok())
    check(world::record_id(id->options, id->record) == bytes, "an id has one spelling");
  auto stream = ByteStream::from_memory(bytes, "fuzz");
  if (!stream.ok()) return 0;
  const auto reader = FileReader::make(std::move(*stream), RecordFormat::kJsonl);
  world::AnswersReport report;
  (void)world::check_records(*reader, {}, 0, report).ok();
  check(report.all.exact <= report.all.normalized && report.all.normalized <= report.all.answers,
        "consistent counts");
  check(report.bad.reported.size() <= BadRecords::kMaxReported, "the number of reported records is limited");
  for (const auto& line : report.bad.reported) check(line.size() < 4000, "a bounded message");
  return 0;
}
