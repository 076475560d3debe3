#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/study/store/summary.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Names of stored traces besides those named as baselines.
inline constexpr const char* kRecommendedTrace = "recommended";
inline constexpr const char* kBestPipelineTrace = "best_pipeline";

/// The folder of one tuning run: study.sqlite (trials, samples, predictions, environment), NAME.plan.json, report.html, traces/, failed/.
/// Each finished trial is one commit, so that a killed tuner loses none. The study is locked while open (flock: the lock of a killed owner
/// is gone with it).
/// Use from one thread.
class Study {
 public:
  enum class Open { create, resume, read };
  /// create: throws Error (usage) if the folder exists (remedy: --resume, --force or another -o). With `force` an existing study of ours is
  /// replaced. Without it, a study in which no plan was measured is replaced if no layer was measured, either, or if its last run failed
  /// (set_failed). resume: throws if the folder is no study, or one of another `identity` (the error names what differs) or of a newer
  /// version; a creation that was cut off is done again. read: opens without a lock, for reports. Throws Error (usage) if another process
  /// has the study open or the folder is read-only, and Error (environment) on a full disk.
  Study(const std::string& folder, Open mode, bool force = false);
  /// Throws the Error (usage) with which opening would refuse the folder as it is; changes nothing in the study.
  static void check(const std::string& folder, Open mode, bool force = false);
  ~Study();
  Study(Study&&) noexcept;
  Study& operator=(Study&&) noexcept;

  /// Sets what the study is about: setup and fingerprint as JSON text. It is written once at creation, and compared on resume.
  void set_identity(const std::string& identity_json);
  [[nodiscard]] std::string identity() const;
  /// Returns all that is needed to go on without the command line that made the study, as JSON text; "" in studies of earlier versions.
  [[nodiscard]] std::string command() const;
  void set_command(const std::string& command_json);

  // ---- how far the tuning is; each is replaced when set again ----

  /// Returns true once the model's pieces were found to train as the whole model does.
  [[nodiscard]] bool checked() const;
  void set_checked();
  /// Sets whether the last run ended without any measured plan, by a mistake or for lack of time: the corrected command may then replace
  /// the study.
  void set_failed(bool failed);
  /// Returns the number of the final, interleaved series; empty until it was measured. Throws Error (usage) where no trial has this number.
  [[nodiscard]] std::optional<int> final_series() const;
  void set_final_series(int series);
  /// Returns descriptions of finalists that the final series had no time for, for people; "" for none.
  [[nodiscard]] std::string not_benchmarked() const;
  void set_not_benchmarked(const std::string& descriptions);
  /// Returns why no further candidate was tried, for people.
  [[nodiscard]] std::string stop_reason() const;
  void set_stop_reason(const std::string& reason);
  /// Returns the summary; empty until the tuning ended. Throws Error (usage) where it is damaged.
  [[nodiscard]] std::optional<StudySummary> summary() const;
  void set_summary(const StudySummary& summary);

  /// Stores a finished trial with all its samples, and gives it its id, which is returned. The trial is on disk when this returns.
  int add(Trial& trial);
  /// Returns all trials. Throws Error (usage), naming table and row, for a value that no study has: anyone can damage or edit the file.
  [[nodiscard]] std::vector<Trial> trials() const;
  /// Returns the number for the next series.
  [[nodiscard]] int next_series() const;

  [[nodiscard]] std::string folder() const;
  /// Returns the folder that holds the study's folder. The study's records name files relative to it (path_from_folder), so that both can
  /// be moved together. Paths that are read back are absolute.
  [[nodiscard]] std::string home() const;
  [[nodiscard]] std::string profile_path() const;                       ///< traces/profile.sqlite
  [[nodiscard]] std::string trace_path(const std::string& name) const;  ///< traces/NAME.sqlite
  [[nodiscard]] std::string plan_path() const;                          ///< MODEL.plan.json in the folder
  [[nodiscard]] std::string report_path() const;                        ///< report.html in the folder
  /// Returns failed/KEY.plan.json, where a plan that failed is kept, to be run again by itself. Makes the folder. Throws Error
  /// (environment).
  [[nodiscard]] std::string failed_plan_path(const std::string& plan_key) const;
  [[nodiscard]] static bool is_study(const std::string& path);

 private:
  [[nodiscard]] bool has_series(std::int64_t series) const;
  void set_value(const char* name, const std::string& value);
  [[nodiscard]] std::string value(const char* name) const;  ///< "" when absent

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mptune::tuner
