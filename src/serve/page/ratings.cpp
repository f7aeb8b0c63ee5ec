#include "serve/page/ratings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/quote.h"
#include "people/study_report.h"
#include "serve/page/runs.h"

namespace makar {
namespace {

constexpr size_t kMaxStudies = 200, kMaxStudyBytes = size_t{16} << 20;
constexpr int64_t kMaxRatingBytes = int64_t{128} << 20;

// Appends a line durably. A line that a crash cut off is removed first.
Status append_line(const std::string& path, const std::string& line) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file < 0) return io_error(path, "open");
  struct Close {
    int file;
    ~Close() { ::close(file); }
  } close{file};
  struct stat status = {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return io_error(path, "write");
  if (status.st_size > kMaxRatingBytes)
    return error_of(Error::Kind::kLimit, "ratings", "the file of ratings has reached the limit of {} bytes",
                    kMaxRatingBytes);
  int64_t end = status.st_size;
  for (char last = 0; end > 0; --end) {
    if (::pread(file, &last, 1, end - 1) != 1) return io_error(path, "read");
    if (last == '\n') break;
  }
  if (end != status.st_size && ::ftruncate(file, end) != 0) return io_error(path, "write");
  const ssize_t written = ::pwrite(file, line.data(), line.size(), end);
  if (written != static_cast<ssize_t>(line.size()) || ::fsync(file) != 0) {
    (void)!::ftruncate(file, end);
    return io_error(path, "write");
  }
  return Done{};
}

struct StudyWithRatings {
  Study study;
  std::vector<Rating> ratings;
};
Result<StudyWithRatings> read_study_with_ratings(const std::string& path) {
  StudyWithRatings out;
  MAKAR_TRY(out.study, read_study(path, kMaxStudyBytes));
  MAKAR_TRY(out.ratings, read_ratings_of(path, out.study));
  return out;
}

// Reorders values from the order in which the rater saw the answers to the order of the study.
Json in_study_order(const Json& values, const std::vector<size_t>& order) {
  if (!values.is_array() || values.size() != order.size()) return values;
  Json out = values;
  for (size_t position = 0; position < order.size(); ++position) out[order[position]] = values[position];
  return out;
}

}  // namespace

Result<std::string> RatingStudies::path_of(const std::string& study) const {
  const std::string path = folder_ + "/" + study + ".jsonl";
  if (!is_plain_name(study) || study.ends_with(".ratings") || !is_file(path))
    return error_of(Error::Kind::kNotFound, "study", "study {} not found", quote(study));
  return path;
}

Result<Json> RatingStudies::list() {
  std::set<std::string> names;
  std::error_code code;
  size_t entries = 0;
  for (std::filesystem::directory_iterator it(folder_, code), end;
       !code && it != end && ++entries < kMaxFolderEntries; it.increment(code)) {
    const std::string name = it->path().stem().string();
    if (it->path().extension() == ".jsonl" && is_plain_name(name) && !name.ends_with(".ratings") &&
        names.size() < kMaxStudies)
      names.insert(name);
  }
  const std::lock_guard lock(mutex_);
  Json out = Json::array();
  for (const std::string& name : names) {
    const auto stored = read_study_with_ratings(folder_ + "/" + name + ".jsonl");
    out.push_back({{"name", name}});
    if (stored.ok())
      out.back().update({{"items", stored->study.items.size()}, {"ratings", stored->ratings.size()}});
    else
      out.back()["error"] = stored.error().text();
  }
  return out;
}

Result<Json> RatingStudies::next(const std::string& study, const std::string& rater, int64_t after) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const std::string path, path_of(study));
  MAKAR_TRY(const StudyWithRatings stored, read_study_with_ratings(path));
  std::set<size_t> rated;
  for (const Rating& one : stored.ratings)
    if (one.rater == rater) rated.insert(one.item);
  const size_t total = stored.study.items.size();
  Json out = {{"study", study}, {"done", rated.size()}, {"total", total}};
  for (size_t step = 1; step <= total; ++step) {
    const size_t index = (static_cast<size_t>(std::max<int64_t>(after, -1) + 1) + step - 1) % total;
    if (rated.count(index)) continue;
    const StudyItem& item = stored.study.items[index];
    Json answers = Json::array();
    for (const size_t answer : blind_order(rater, index, item.answers.size()))
      answers.push_back(item.answers[answer]);
    out.update({{"item", index},
                {"kind", name(item.kind)},
                {"prompt", item.prompt},
                {"answers", answers},
                {"scales", item.scales}});
    break;
  }
  return out;
}

Status RatingStudies::add(const std::string& study, Json rating) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const std::string path, path_of(study));
  MAKAR_TRY(const Study definition, read_study(path, kMaxStudyBytes));
  MAKAR_TRY(const Rating as_shown, parse_rating(rating, definition, "rating"));
  const auto order =
      blind_order(as_shown.rater, as_shown.item, definition.items[as_shown.item].answers.size());
  for (const char* key : {"ranks", "scales"})
    if (rating.contains(key)) rating[key] = in_study_order(rating[key], order);
  MAKAR_TRY(const Rating rating_to_store, parse_rating(rating, definition, "rating"));
  return append_line(ratings_path(path), rating_json(rating_to_store).dump() + "\n");
}

Result<Json> RatingStudies::report(const std::string& study) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const std::string path, path_of(study));
  MAKAR_TRY(const StudyWithRatings stored, read_study_with_ratings(path));
  return study_report(stored.study, stored.ratings);
}

Result<std::string> RatingStudies::preferences(const std::string& study) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const std::string path, path_of(study));
  MAKAR_TRY(const StudyWithRatings stored, read_study_with_ratings(path));
  return preference_lines(stored.study, stored.ratings);
}

}  // namespace makar
