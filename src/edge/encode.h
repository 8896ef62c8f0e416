#pragma once
// Answers of the engine as JSON values with the names of the contract. What is not known is null,
// never left out; text that is not valid UTF-8 is made so.

#include <boost/json/fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "edge/service.h"
#include "engine/command.h"

namespace waybill::edge {

boost::json::value encode_job(const engine::JobView& job);
boost::json::value encode_session(const engine::SessionView& session);
boost::json::value encode_hand_over(const engine::HandOver& hand_over, const Settings& settings);
boost::json::value encode_error(const Error& error);

// Result texts, ready to stand after "result": in a line.
std::string encode_reply(const engine::Reply& reply, const Settings& settings);
std::string encode_query(const QueryReply& reply);
std::string encode_logs(const LogsReply& logs);
std::string encode_write(const WriteReply& reply);
std::string encode_findings(const std::vector<Finding>& findings);

}  // namespace waybill::edge
