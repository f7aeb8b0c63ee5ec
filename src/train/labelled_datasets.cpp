// The labelled datasets of a run: training and validation data with the same labels, and their hash.
#include "base/sha256.h"
#include "train/labelled.h"

namespace makar {
namespace {

void say_read(const DatasetOptions& options, const std::string& path, const LabelledData& d) {
  const size_t examples = d.train.size() + d.validation.size();
  options.say(fmt::format("{}: {} examples (schema: {}{})", path, examples, d.schema,
                          d.names.empty() ? "" : fmt::format(", {} labels", d.names.size())));
  report_bad_records(options, d.bad);
  if (!d.groups.empty()) options.say(fmt::format("groups: {}", fmt::join(d.groups, ", ")));
  if (d.kind == LabelKind::kClass && d.names.size() > 20 && d.names.size() * 2 > examples)
    options.say(fmt::format(
        "warning: {} labels for {} examples; if the columns are swapped, name them after the "
        "path: PATH,text=NAME,label=NAME (by number in a file without a header: text=2,label=1); to "
        "predict numbers, use --regression",
        d.names.size(), examples));
}

}  // namespace

Result<LabelledData> open_labelled(const DatasetOptions& options, const Tokenizer& tokenizer,
                                   LabelledOptions reading, Json& identity) {
  if (options.train.size() != 1 || options.validation.size() > 1)
    return error_at("datasets", "classify takes one file or folder to train on and one to validate on");
  reading.folder = options.folder;
  reading.validation = options.validation.empty() ? options.validation_share : 0;
  MAKAR_TRY(const DatasetSpec spec, parse_dataset(options.train[0]));
  MAKAR_TRY(LabelledData data, read_labelled(spec.data(), tokenizer, reading));
  say_read(options, spec.path, data);
  if (!options.validation.empty()) {
    MAKAR_TRY(const DatasetSpec validation_spec, parse_dataset(options.validation[0]));
    MAKAR_TRY(const LabelledData validation,
              read_labelled(validation_spec.data(), tokenizer, reading, data.names, data.groups));
    say_read(options, validation_spec.path, validation);
    if (validation.kind != data.kind)
      return error_at(validation_spec.path, "has a different kind of labels than the training data");
    data.validation = validation.train;
  }
  Sha256 sum;
  for (const auto* texts : {&data.train, &data.validation})
    for (size_t i = 0; i < texts->size(); ++i) {
      MAKAR_TRY(const LabelledText t, texts->read(i));
      sum.add(std::as_bytes(std::span(t.ids))), sum.add(std::as_bytes(std::span(t.tags)));
      sum.add(fmt::format("{} {} {} {}\n", t.label, t.number, t.start, t.end));
      if (t.group >= 0) sum.add(fmt::format("group {}\n", t.group));
    }
  identity["data"] = sum.hex();
  return data;
}

}  // namespace makar
