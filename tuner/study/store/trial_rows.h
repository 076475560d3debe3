#pragma once

#include <SQLiteCpp/Database.h>

#include <string>
#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// The application ID of study.sqlite, and the version of its tables.
inline constexpr int kStudyApplication = 0x6D707473;
inline constexpr int kStudyVersion = 1;

/// Makes the tables, the application id and the version, in one transaction.
void create_study_tables(SQLite::Database& database);
/// Writes the trial with everything that belongs to it; the caller commits. Sets its id.
void insert_trial(SQLite::Database& database, Trial& trial);
/// Returns all trials in the order of their ids. Throws Error (usage), with table and row, for a value that no study has; `folder` is the
/// study's.
[[nodiscard]] std::vector<Trial> select_trials(SQLite::Database& database, const std::string& folder);

}  // namespace mptune::tuner
