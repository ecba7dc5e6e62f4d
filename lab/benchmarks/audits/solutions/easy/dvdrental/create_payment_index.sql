CREATE INDEX idx_payment_customer_id ON payment (customer_id);
