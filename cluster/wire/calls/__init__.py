"""Calls between processes.

rpc               channels to servers                 call_streams   small calls on a shared stream, client's end
call_service      the same, server's end              exchanges      reading messages of an exchange
deferred_replies  replies without a waiting thread    turn_batching  per-thread batching
"""
